// Kubernetes as one program, for tests: the first word names the server, the others are its own.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	servers := map[string]func() *cobra.Command{
		"apiserver": apiserver.NewAPIServerCommand,
		"scheduler": func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":   func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	}
	if len(os.Args) > 1 {
		os.Args = os.Args[1:]
		if os.Args[0] == "etcd" {
			etcdmain.Main(os.Args)
			return
		}
		if server, found := servers[os.Args[0]]; found {
			os.Exit(cli.Run(server()))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: kubernetes etcd|apiserver|scheduler|kubelet ...")
	os.Exit(2)
}

.types:
	mkdir -p .types/cdcbus
	for d in plugins producer consumer tasks ops; do ln -sfn ../../$$d .types/cdcbus/$$d; done
	for f in ops/package/*; do ln -sfn ../../$$f .types/cdcbus/$$(basename $$f); done

"""Limits that a machine's settings put on tasks: which files `${file:...}` reads, and which code
is loaded by name.

Anyone who can write to ZooKeeper can write tasks and sources, and nodes run these. The limits are
in the environment that fills a task's placeholders, under the keys of their settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cdcbus.plugins.registry import is_added_converter, is_added_loader, is_added_source
from cdcbus.tasks.config.keys.types import split_list

FILES = "node.files"
MODULES = "node.modules"
ENVIRONMENT = "environment"
# A machine's own variable may have the key's name.
FILLED_ENVIRONMENT = f"cdcbus.{ENVIRONMENT}"
# The variables and files, one a line, that hold secrets of the machine's own settings. A file of
# which they take one key is `path:key`.
OWN_VARIABLES = "cdcbus.variables"
OWN_FILES = "cdcbus.files"
# Before a key that is passed through: it means the same without.
SIDE = re.compile(r"^(consumer|loader)\.source\.(?=(kafka|spark)\.)")
# What Java cuts from the ends of values; str.strip leaves most of these.
JAVA_BLANKS = "".join(map(chr, range(33)))
# Options of Kafka's clients for which Java loads classes, or librdkafka a library, or which are
# commands.
KAFKA_CODE = re.compile(
    r"(sasl|ssl)\..*\.class|partition\.assignment\.strategy|metric\.reporters"
    r"|(config|security|ssl)\.providers|ssl\.engine\..*|plugin\.library\.paths"
    r"|sasl\.kerberos\.kinit\.cmd"
)
LOGIN = "sasl.jaas.config"
# Java's own login modules. With others, as those for LDAP, a login loads code from elsewhere.
LOGINS = {
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "com.sun.security.auth.module.Krb5LoginModule",
}
COMMAND_PARTS = {"sasl.kerberos.principal", "sasl.kerberos.keytab"}
KERBEROS_NAME = re.compile(r"[A-Za-z0-9_@./:-]+")
# The content goes to the broker, or to the server that gives tokens.
SENT_FILE = re.compile(r"sasl\.oauthbearer\.assertion\.(file|(jwt\.)?template\.file)")
SENT_URL = "sasl.oauthbearer.token.endpoint.url"


def may_read(path: str, environ: Mapping[str, str]) -> bool:
    """Whether a task may read a file: `node.files` is unset, or names the file or a folder above
    it. Symbolic links are resolved first."""
    if not environ.get(FILES):
        return True
    # A link inside an allowed folder must not lead out of it.
    real = _resolved(path)
    return any(real.is_relative_to(_resolved(allowed)) for allowed in split_list(environ[FILES]))


def why_not_read(path: str, key: str, environ: Mapping[str, str]) -> str:
    """The reason why a task may not read a file, or a key in it; empty where it may."""
    if not may_read(path, environ):
        return (
            f"file {path!r} may not be read for a task: the setting {FILES} of this machine lists "
            "the files and folders that may; move the file, or add it to the list in "
            "cdcbus.properties"
        )
    if is_own_file(path, key, environ):
        return (
            f"file {path!r} holds secrets of this machine's own settings, which no task may read; "
            "put the task's secret into a file of its own"
        )
    return ""


def forbidden_files(
    values: Mapping[str, str], environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The keys of a task for which a client of Kafka would send a file that the task may not read,
    each with a sentence. Files that are only used to log in, as keys and certificates, are not
    limited."""
    for key, value in values.items():
        option, path = _kafka_option(key), value.strip(JAVA_BLANKS)
        # Java takes `url:file:` for `file:`.
        address = path.lower().removeprefix("url:")
        if option == SENT_URL and address.startswith("file:"):
            path = unquote(urlsplit(path[-len(address) :]).path)
        elif not SENT_FILE.fullmatch(option):
            continue
        if path and (reason := why_not_read(path, "", environ)):
            yield key, reason


def is_own_variable(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable holds a secret of the machine's own settings, as the console's token: who
    may edit a task must not learn it by a placeholder."""
    return name in environ.get(OWN_VARIABLES, "").splitlines()


def is_own_file(path: str, key: str, environ: Mapping[str, str]) -> bool:
    """The same of a file, or of a key in it. Symbolic links are resolved first."""
    real = _resolved(path)
    # A process's variables are a file there.
    if real.is_relative_to("/proc"):
        return True
    for own in environ.get(OWN_FILES, "").splitlines():
        own_path, _, own_key = own.partition(":")
        if real == _resolved(own_path) and (not own_key or key in ("", own_key)):
            return True
    return False


def _resolved(path: str) -> Path:
    try:
        return Path(path).resolve()
    # No file can have such a name.
    except ValueError:
        return Path(path)


def other_environment(theirs: str, own: str) -> str:
    """The reason why a task of one environment does not run in another; empty where they agree."""
    if theirs == own:
        return ""
    if not theirs:
        return (
            f"missing; this machine is of environment {own}, by its cdcbus.properties; expected "
            f"{ENVIRONMENT}={own}, if the task is meant for it"
        )
    machine = "has no environment"
    if own:
        machine = f"is of environment {own}"
    return (
        f"the task is of environment {theirs}, and this machine {machine}, by its "
        f"cdcbus.properties; run it where {ENVIRONMENT}={theirs} is set"
    )


@dataclass(frozen=True, slots=True)
class _Code:
    """Code that a task's key loads. `names`: what allows it where the list has it. `what` and
    `remedy`: for the sentence."""

    key: str
    names: tuple[str, ...]
    what: str
    remedy: str


def forbidden_code(
    values: Mapping[str, str], environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The keys of a task that would load code that `node.modules` does not name, each with a
    sentence. Spark settings count as code because many load some: jars, Java options, the
    cluster."""
    if not environ.get(MODULES):
        return
    allowed = split_list(environ[MODULES])
    for code in _named_code(values):
        if not any(name in allowed or _is_in_module(name, allowed) for name in code.names):
            yield (
                code.key,
                f"{code.what} may not be used here: the setting {MODULES} of this machine names "
                f"what tasks may load; {code.remedy}",
            )


def _named_code(values: Mapping[str, str]) -> Iterator[_Code]:
    for key, value in values.items():
        # As settings are read, which cuts more characters than Java.
        name = value.strip()
        short = SIDE.sub("", key)
        if (
            (key == "consumer.eventProcessor.className" and name)
            or (key == "consumer.converter" and is_added_converter(name))
            or (key == "consumer.consumerName" and is_added_source(name))
            or (key == "loader.loaderName" and is_added_loader(name))
        ):
            yield _Code(key, (name,), name, _to_be_listed(name.partition(":")[0]))
        elif short.startswith("spark.") or _is_kafka_code(_kafka_option(key), value):
            loaded = _loaded_class(_kafka_option(key), value.strip(JAVA_BLANKS))
            yield _Code(key, (short, key, loaded), *_advice(short, loaded))


def _advice(short: str, loaded: str) -> tuple[str, str]:
    """What may not be used, and what to do, for a key that is passed through."""
    if _kafka_option(short) in COMMAND_PARTS:
        # Not by the list: with the key in it, any task can run any command.
        return (
            "blanks, quotes and other signs of a shell",
            "write letters, digits and _@./:- only, as this becomes part of a command",
        )
    if loaded:
        # Not the key: with that in the list, a task can name any class. And the class is not
        # shown, as a wrong line can have a secret in its place.
        return "the class that it names", _to_be_listed("that class")
    return short, _to_be_listed(short)


def _to_be_listed(name: str) -> str:
    return f"add {name} to it in cdcbus.properties, or use another"


def _kafka_option(key: str) -> str:
    """The option of Kafka's client that a key sets; empty for another key."""
    return option_name(key.partition("kafka.")[2])


def option_name(written: str) -> str:
    """The name of an option of Kafka's client as clients get it: Spark passes names on in lower
    case."""
    # As Java's lower case: casefold would make other names equal, too.
    return written.lower()


def _is_kafka_code(option: str, value: str) -> bool:
    """Whether a client of Kafka would load code for an option, or run a command."""
    if not (name := value.strip(JAVA_BLANKS)):
        return False
    if option == LOGIN:
        module = _loaded_class(option, name)
        # A placeholder that cannot be filled here is checked where it can.
        return module not in LOGINS and not module.startswith("${")
    if option in COMMAND_PARTS:
        # librdkafka puts them into a command for the shell, as they are; a line break ends one.
        return KERBEROS_NAME.fullmatch(value.rstrip()) is None
    return KAFKA_CODE.fullmatch(option) is not None


def _loaded_class(option: str, value: str) -> str:
    """The one class that an option names; empty for other options."""
    if option == LOGIN:
        # Java takes the first word for the class, also where a comment or a quote begins there.
        return re.split("[\0- ]", value)[0]
    if option.endswith(".class"):
        return value
    return ""


def _is_in_module(name: str, allowed: Iterable[str]) -> bool:
    """Whether the module of `module:function`, or a package above it, is allowed."""
    module, colon, _ = name.partition(":")
    # With the dots, `shop` allows shop.rules and not shopping.
    return bool(colon) and any(f"{module}.".startswith(f"{each}.") for each in allowed)

"""Translates a task file's `kafka.*` settings for either client: the Java client, with which Spark
reads, and librdkafka, used for everything else.

The two agree on most names, but not on those of logins and certificates. A task file may use
either's; a client's own spelling takes precedence, else the other's is translated. Names and
formats: the configuration references of Kafka 4 and of librdkafka 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Final

Options = dict[str, str]
Report = Callable[[str, str], None]
"""Takes an option and what is wrong with it."""


class Client(Enum):
    """The client that options are for. LOOK_UP: librdkafka's connection options only, without those
    for producing and consuming."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    LOOK_UP = "look-up"


def client_options(options: Mapping[str, str], client: Client, report: Report) -> Options:
    """The options in a client's own spelling. An option that has no equivalent is passed to
    `report`, with a sentence without secrets, and left out. An empty value counts as none, except
    for the endpoint identification, which Java turns off with it."""
    given = {name: value for name, value in options.items() if value or name == ENDPOINT}
    if client is Client.JAVA:
        return _java(given, report)
    made = _librdkafka(given, report)
    if client is Client.LIBRDKAFKA:
        return made
    return {name: value for name, value in made.items() if CONNECTING.match(name)}


ENDPOINT: Final = "ssl.endpoint.identification.algorithm"
CONNECTING: Final = re.compile(
    r"security\.|sasl\.|ssl\.|enable\.ssl\.|client\.id$|client\.dns\.lookup$|broker\.address\."
)
LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
PEM_NAMES: Final = {".pem", ".crt", ".cer"}
PKCS12_NAMES: Final = {".p12", ".pfx"}
ONE_NAME_MORE: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
}
"""librdkafka's name -> Java's, for options with the same values."""
JAVA_ALONE: Final = re.compile(
    r"ssl\.(protocol|enabled\.protocols|provider|(key|trust)manager\.algorithm)"
    r"|ssl\.secure\.random\.implementation|ssl\.(key|trust)store\.type"
    r"|ssl\.truststore\.(location|password)"
    r"|sasl\.jaas\.config|sasl\.login\.(refresh|retry)\..*|sasl\.kerberos\.ticket\..*"
)
"""Options that librdkafka does not know and does not need."""
LIBRDKAFKA_ALONE: Final = re.compile(
    r"sasl\.(username|password)|ssl\.(ca|certificate|key)\.location"
    r"|enable\.ssl\.certificate\.verification"
)


def _is_pem(given: Mapping[str, str], store: str) -> bool:
    return _is_of_type(given, store, "PEM", PEM_NAMES)


def _is_of_type(given: Mapping[str, str], store: str, type_: str, suffixes: set[str]) -> bool:
    """Whether a store is of a type, by the configured type, else by the file's name."""
    kind = given.get(f"ssl.{store}.type")
    if kind:
        return kind.upper() == type_
    location = given.get(f"ssl.{store}.location", "")
    return PurePath(location).suffix.lower() in suffixes


def _is_pkcs12(given: Mapping[str, str], store: str) -> bool:
    return _is_of_type(given, store, "PKCS12", PKCS12_NAMES)


# librdkafka


def _librdkafka(given: Options, report: Report) -> Options:
    java_names = set(ONE_NAME_MORE.values())
    made: Options = {}
    for name, value in given.items():
        if not JAVA_ALONE.fullmatch(name) and name not in java_names:
            made[name] = value
    for name, java_name in ONE_NAME_MORE.items():
        if java_name in given:
            made.setdefault(name, given[java_name])
    if "security.protocol" in made:
        made["security.protocol"] = made["security.protocol"].lower()
    if ENDPOINT in made:
        made[ENDPOINT] = made[ENDPOINT].lower() or "none"
    # its own login settings take precedence over Java's
    has_login = "sasl.username" in given or "sasl.oauthbearer.method" in given
    if "sasl.jaas.config" in given and not has_login:
        made |= _login(given["sasl.jaas.config"], report)
    _trust(given, made, report)
    _identity(given, made, report)
    return made


def _login(jaas: str, report: Report) -> Options:
    login = _jaas_options(jaas)
    if login is None:
        report(
            "sasl.jaas.config",
            "only the login modules of PLAIN and SCRAM can be read outside Java; expected "
            f'{LOGIN_MODULES["PLAIN"]} required username="..." password="...";, or sasl.username '
            "and sasl.password instead",
        )
        return {}
    return {"sasl.username": login["username"], "sasl.password": login["password"]}


_VALUE: Final = r"""(?:"(?:[^"\\]|\\[^abfnrtv0-7])*"|'(?:[^'\\]|\\[^abfnrtv0-7])*'|[\w$.-]+)"""
JAAS: Final = re.compile(
    rf"\s*[\w.$]*\b(?:Plain|Scram)LoginModule\s+\w+((?:\s+[\w.]+\s*=\s*{_VALUE})*)\s*;\s*",
    re.DOTALL,
)
JAAS_OPTION: Final = re.compile(rf"([\w.]+)\s*=\s*({_VALUE})", re.DOTALL)


def _jaas_options(jaas: str) -> Options | None:
    """The options of a JAAS text; None if it does not parse to a user and a password."""
    text = JAAS.fullmatch(jaas)
    if text is None:
        return None
    options = {name: _unquoted(value) for name, value in JAAS_OPTION.findall(text[1])}
    if not {"username", "password"} <= options.keys():
        return None
    return options


def _unquoted(value: str) -> str:
    if value[0] not in "\"'":
        return value
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)


def _trust(given: Options, made: Options, report: Report) -> None:
    store = given.get("ssl.truststore.location")
    if store is None or {"ssl.ca.location", "ssl.ca.pem"} & made.keys():
        return
    if _is_pem(given, "truststore"):
        made["ssl.ca.location"] = store
        return
    report(
        "ssl.truststore.location",
        f"{store} is a store that only Java can read; give the certificates as one PEM file, "
        "with ssl.truststore.type=PEM: keytool -list -rfc -keystore STORE > ca.pem",
    )


def _identity(given: Options, made: Options, report: Report) -> None:
    store = given.get("ssl.keystore.location")
    if store is None or _is_pkcs12(given, "keystore"):
        return
    del made["ssl.keystore.location"]
    made.pop("ssl.keystore.password", None)
    if {"ssl.certificate.location", "ssl.certificate.pem"} & made.keys():
        return
    if _is_pem(given, "keystore"):
        made |= {"ssl.certificate.location": store, "ssl.key.location": store}
        return
    report(
        "ssl.keystore.location",
        f"{store} is a store that only Java can read; give certificate and key as one PEM file, "
        "with ssl.keystore.type=PEM: "
        "keytool -importkeystore makes a PKCS12 store of it, openssl pkcs12 -in STORE.p12 -out "
        "client.pem a PEM file",
    )


# Java


def _java(given: Options, report: Report) -> Options:
    made: Options = {}
    for name, value in given.items():
        if not LIBRDKAFKA_ALONE.fullmatch(name) and name not in ONE_NAME_MORE:
            made[name] = value
    for name, java_name in ONE_NAME_MORE.items():
        if name in given:
            made.setdefault(java_name, given[name])
    if "security.protocol" in made:
        made["security.protocol"] = made["security.protocol"].upper()
    if made.get(ENDPOINT, "").lower() == "none":
        made[ENDPOINT] = ""
    if "sasl.username" in given:
        _add_jaas(given, made, report)
    _add_truststore(given, made)
    _add_keystore(given, made, report)
    if given.get("enable.ssl.certificate.verification", "true").lower() != "true":
        report(
            "enable.ssl.certificate.verification",
            "Spark's Kafka client always checks the brokers' certificates; remove the line and "
            "name their issuer in ssl.ca.location",
        )
    return made


def _add_jaas(given: Options, made: Options, report: Report) -> None:
    if "sasl.jaas.config" in made:
        return
    mechanism = made.get("sasl.mechanism", "")
    if mechanism not in LOGIN_MODULES:
        report("sasl.username", f"needs sasl.mechanism to be one of {', '.join(LOGIN_MODULES)}")
        return
    module = LOGIN_MODULES[mechanism]
    user = _escaped(given.get("sasl.username", ""))
    password = _escaped(given.get("sasl.password", ""))
    made["sasl.jaas.config"] = f'{module} required username="{user}" password="{password}";'


def _escaped(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text)


def _add_truststore(given: Options, made: Options) -> None:
    if "ssl.truststore.location" in made:
        if "ssl.truststore.type" not in made and _is_pem(given, "truststore"):
            made["ssl.truststore.type"] = "PEM"
        return
    if "ssl.truststore.certificates" not in made:
        # `probe`: the system's certificates, comparable to Java's default
        location = given.get("ssl.ca.location", "probe")
        if location == "probe":
            return
        made["ssl.truststore.location"] = location
    made["ssl.truststore.type"] = "PEM"


def _add_keystore(given: Options, made: Options, report: Report) -> None:
    if "ssl.keystore.location" in made:
        if "ssl.keystore.type" not in made:
            if _is_pem(given, "keystore"):
                made["ssl.keystore.type"] = "PEM"
            elif _is_pkcs12(given, "keystore"):
                made["ssl.keystore.type"] = "PKCS12"
        return
    if "ssl.keystore.key" in made:
        made["ssl.keystore.type"] = "PEM"
        return
    certificate = given.get("ssl.certificate.location")
    key = given.get("ssl.key.location")
    if certificate is None and key is None:
        return
    if certificate != key or certificate is None:
        report(
            "ssl.certificate.location" if certificate else "ssl.key.location",
            "Spark's Kafka client wants key and certificate in one file: cat client.key "
            "client.crt > client.pem, "
            "and name it in both ssl.certificate.location and ssl.key.location",
        )
        return
    made |= {"ssl.keystore.location": certificate, "ssl.keystore.type": "PEM"}

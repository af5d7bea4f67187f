"""One task file's settings for both Kafka clients."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.kafka.client.options import Client, client_options

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def translated(options: dict[str, str], client: Client) -> tuple[dict[str, str], dict[str, str]]:
    """The options, and what is wrong with which of the given ones."""
    wrong: dict[str, str] = {}
    made = client_options(options, client, wrong.__setitem__)
    assert wrong.keys() <= options.keys()
    return made, wrong


def java(**options: str) -> dict[str, str]:
    made, wrong = translated(
        {name.replace("_", "."): value for name, value in options.items()}, Client.JAVA
    )
    assert wrong == {}
    return made


def librdkafka(**options: str) -> dict[str, str]:
    """What librdkafka itself takes without complaint, but for files, which it opens."""
    made, wrong = translated(
        {name.replace("_", "."): value for name, value in options.items()}, Client.LIBRDKAFKA
    )
    assert wrong == {}
    Producer(
        {
            name: value
            for name, value in made.items()
            if not name.endswith(("location", "pem")) and name != "ssl.keystore.password"
        }
    )
    return made


LOGINS = [
    ("PLAIN", f'{PLAIN} required username="alice" password="secret";', "alice", "secret"),
    ("PLAIN", f"{PLAIN} required username=alice password='s e';", "alice", "s e"),
    (
        "SCRAM-SHA-256",
        f'{SCRAM} required\n  username="a\\"b"\n  password="back\\\\slash" ;',
        'a"b',
        "back\\slash",
    ),
    (
        "SCRAM-SHA-512",
        f'kafkashaded.{SCRAM} optional password = "p;=q" username = "x" tokenauth="false";',
        "x",
        "p;=q",
    ),
]


@pytest.mark.parametrize(("mechanism", "jaas", "user", "password"), LOGINS)
def test_a_jaas_text_is_a_login_for_librdkafka(
    mechanism: str, jaas: str, user: str, password: str
) -> None:
    assert librdkafka(
        security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=jaas
    ) == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def test_a_login_is_a_jaas_text_for_java() -> None:
    assert java(
        security_protocol="sasl_plaintext",
        sasl_mechanisms="SCRAM-SHA-256",
        sasl_username='a"b',
        sasl_password="back\\slash",
    ) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{SCRAM} required username="a\\"b" password="back\\\\slash";',
    }


@given(
    user=st.text(min_size=1),
    password=st.text(min_size=1),
    mechanism=st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
)
def test_a_login_survives_both_ways(user: str, password: str, mechanism: str) -> None:
    login = {"sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password}
    there, wrong = translated(login, Client.JAVA)
    assert (translated(there, Client.LIBRDKAFKA), wrong) == ((login, {}), {})


def test_a_client_s_own_spelling_wins() -> None:
    both = {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="j" password="j";',
        "sasl.username": "r",
        "sasl.password": "r",
        "ssl.truststore.location": "/trust.jks",
        "ssl.truststore.password": "x",
        "ssl.ca.location": "/ca.pem",
    }
    ours, wrong = translated(both, Client.LIBRDKAFKA)
    assert (ours, wrong) == (
        {
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "r",
            "sasl.password": "r",
            "ssl.ca.location": "/ca.pem",
        },
        {},
    )
    theirs, wrong = translated(both, Client.JAVA)
    assert (theirs["sasl.jaas.config"], theirs["ssl.truststore.location"], wrong) == (
        both["sasl.jaas.config"],
        "/trust.jks",
        {},
    )
    assert not any(name.startswith(("sasl.user", "sasl.pass", "ssl.ca")) for name in theirs)


@pytest.mark.parametrize(
    ("given", "ours", "theirs"),
    [
        ({"ssl.ca.location": "/ca.pem"}, None, {"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"}),
        ({"ssl.truststore.location": "/ca", "ssl.truststore.type": "pem"}, {"ssl.ca.location": "/ca"}, None),
        ({"ssl.truststore.location": "/ca.crt"}, {"ssl.ca.location": "/ca.crt"},
         {"ssl.truststore.location": "/ca.crt", "ssl.truststore.type": "PEM"}),
        ({"ssl.ca.location": "probe"}, {"ssl.ca.location": "probe"}, {}),
        ({"ssl.ca.pem": "PEM"}, {"ssl.ca.pem": "PEM"}, {"ssl.truststore.certificates": "PEM", "ssl.truststore.type": "PEM"}),
        ({"ssl.keystore.location": "/c.pem", "ssl.key.password": "x"},
         {"ssl.certificate.location": "/c.pem", "ssl.key.location": "/c.pem", "ssl.key.password": "x"},
         {"ssl.keystore.location": "/c.pem", "ssl.keystore.type": "PEM", "ssl.key.password": "x"}),
        ({"ssl.certificate.location": "/c.pem", "ssl.key.location": "/c.pem"}, None,
         {"ssl.keystore.location": "/c.pem", "ssl.keystore.type": "PEM"}),
        ({"ssl.keystore.location": "/c.p12", "ssl.keystore.password": "x"}, None,
         {"ssl.keystore.location": "/c.p12", "ssl.keystore.password": "x", "ssl.keystore.type": "PKCS12"}),
        ({"ssl.keystore.key": "K", "ssl.keystore.certificate.chain": "C", "ssl.keystore.type": "PEM"},
         {"ssl.key.pem": "K", "ssl.certificate.pem": "C"}, None),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}, None),
        ({"ssl.endpoint.identification.algorithm": "none"}, None, {"ssl.endpoint.identification.algorithm": ""}),
        ({"ssl.endpoint.identification.algorithm": "HTTPS"}, {"ssl.endpoint.identification.algorithm": "https"}, None),
        ({"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.3", "sasl.login.refresh.window.factor": "0.8"}, {}, None),
        ({"sasl.password": "", "sasl.jaas.config": ""}, {}, {}),
    ],
)  # fmt: skip
def test_certificates_and_more(
    given: dict[str, str], ours: dict[str, str] | None, theirs: dict[str, str] | None
) -> None:
    """None: as it was given."""
    assert translated(given, Client.LIBRDKAFKA) == (given if ours is None else ours, {})
    assert translated(given, Client.JAVA) == (given if theirs is None else theirs, {})


@pytest.mark.parametrize(
    ("given", "client", "words"),
    [
        (
            {"ssl.truststore.location": "/t.jks", "ssl.truststore.password": "SECRET"},
            Client.LIBRDKAFKA,
            "ssl.truststore.type=PEM",
        ),
        (
            {"ssl.truststore.location": "/t.p12", "ssl.truststore.type": "PKCS12"},
            Client.LIBRDKAFKA,
            "only Java can read",
        ),
        (
            {"ssl.keystore.location": "/k.jks", "ssl.keystore.password": "SECRET"},
            Client.LIBRDKAFKA,
            "ssl.keystore.type=PEM",
        ),
        (
            {
                "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
                "keyTab='SECRET';"
            },
            Client.LIBRDKAFKA,
            "PLAIN and SCRAM",
        ),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="a" password="SECRET"'},
            Client.LIBRDKAFKA,
            "PLAIN and SCRAM",
        ),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="a" password="SE\\tCRET";'},
            Client.LIBRDKAFKA,
            "PLAIN and SCRAM",
        ),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="SECRET";'},
            Client.LIBRDKAFKA,
            "PLAIN and SCRAM",
        ),
        ({"sasl.username": "SECRET", "sasl.password": "SECRET"}, Client.JAVA, "sasl.mechanism"),
        (
            {"sasl.username": "SECRET", "sasl.mechanisms": "OAUTHBEARER"},
            Client.JAVA,
            "SCRAM-SHA-512",
        ),
        (
            {"ssl.certificate.location": "/c.crt", "ssl.key.location": "/c.key"},
            Client.JAVA,
            "client.pem",
        ),
        ({"ssl.key.location": "/c.key"}, Client.JAVA, "client.pem"),
        ({"enable.ssl.certificate.verification": "false"}, Client.JAVA, "ssl.ca.location"),
    ],
)
def test_what_a_client_cannot_be_told_is_a_sentence_without_secrets(
    given: dict[str, str], client: Client, words: str
) -> None:
    _, wrong = translated(given, client)
    (sentence,) = wrong.values()
    assert words in sentence
    assert "SECRET" not in sentence


def test_other_options_pass_and_a_look_up_takes_only_those_that_say_how_to_connect() -> None:
    options = {
        "linger.ms": "5",
        "client.id": "x",
        "max.poll.records": "7",
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca",
    }
    assert translated(options, Client.LIBRDKAFKA)[0] == options | {"security.protocol": "ssl"}
    assert (
        translated(options, Client.JAVA)[0].items()
        >= {"linger.ms": "5", "max.poll.records": "7"}.items()
    )
    assert translated(options, Client.LOOK_UP)[0] == {
        "client.id": "x",
        "security.protocol": "ssl",
        "ssl.ca.location": "/ca",
    }

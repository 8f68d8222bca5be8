"""The conformance agent, with an extension that callers may ask for."""

from tests.conformance.agent import full as agent

OPTIONAL = "urn:example:optional"

agent.card.capabilities.extensions.add(uri=OPTIONAL, description="Changes nothing.")

"""The posts that are open, and the people who might fill them."""

from typing import Any, Final

POSTS: Final[dict[str, dict[str, Any]]] = {
    "backend developer": {"skills": ["python", "grpc", "redis"], "years": 4},
    "data engineer": {"skills": ["sql", "spark", "python"], "years": 3},
}

CANDIDATES: Final[list[dict[str, Any]]] = [
    {"name": "Ana Costa", "skills": ["python", "sql"], "years": 6},
    {"name": "Ben Okafor", "skills": ["java", "grpc"], "years": 9},
    {"name": "Chen Wei", "skills": ["python", "grpc", "redis"], "years": 5},
    {"name": "Dina Haddad", "skills": ["python", "spark", "sql"], "years": 2},
    {"name": "Emil Berg", "skills": ["redis", "go"], "years": 3},
    {"name": "Fumi Sato", "skills": ["css", "typescript"], "years": 8},
    {"name": "Gita Rao", "skills": ["sql", "spark"], "years": 7},
]


def collect(post: dict[str, Any], at_most: int = 5) -> list[dict[str, Any]]:
    """The candidates who know at least one thing that the post asks for."""
    return [one for one in CANDIDATES if set(one["skills"]) & set(post["skills"])][:at_most]

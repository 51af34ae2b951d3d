"""A small set of questions with one right answer each, so that garbage does not pass for speed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rocmfix.errors import SmokeError

SHOTS = "Q: What is 3 + 4?\nA: 7\n\nQ: What is 12 - 5?\nA: 7\n\nQ: What is 6 * 3?\nA: 18\n\n"


@dataclass(frozen=True)
class Question:
    """A prompt and what the reply has to begin with."""

    prompt: str
    answer: str

    def is_answered_by(self, text: str) -> bool:
        """Whether `text` begins with the answer, and does not go on into a longer number or word."""
        said = text.strip()
        after = said[len(self.answer) :]
        return said.startswith(self.answer) and not (after[:1].isdigit() and self.answer[-1:].isdigit())


def _sum(question: str, answer: str) -> Question:
    return Question(f"{SHOTS}Q: {question}\nA:", answer)


QUESTIONS = (
    _sum("What is 17 + 25?", "42"),
    _sum("What is 90 - 36?", "54"),
    _sum("What is 8 * 7?", "56"),
    _sum("What is 125 + 250?", "375"),
    _sum("What is 1000 - 1?", "999"),
    _sum("What is 12 * 12?", "144"),
    _sum("What is 64 + 64?", "128"),
    _sum("What is 300 - 45?", "255"),
    _sum("What is 9 * 9?", "81"),
    _sum("What is 33 + 66?", "99"),
    _sum("What is 71 - 17?", "54"),
    _sum("What is 15 * 4?", "60"),
)


def read_questions(path: Path) -> tuple[Question, ...]:
    """Questions from a JSON Lines file, one `{"prompt": ..., "answer": ...}` a line."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        asked = tuple(Question(str(row["prompt"]), str(row["answer"])) for row in rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SmokeError(
            f"{path} holds no questions: {error}",
            hint='one JSON object a line: {"prompt": "Q: 1 + 1?\\nA:", "answer": "2"}',
        ) from error
    if not asked or any(not question.answer for question in asked):
        raise SmokeError(f"{path} holds no question with an answer")
    return asked

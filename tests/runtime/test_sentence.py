"""Sentences with a code are texts in JSON."""

import pytest

from growd.runtime.sentence import Sentence, document, encode, plain

INNER = Sentence("the hold", "hold")
OUTER = Sentence("held by the hold", "held", by=INNER)


def test_a_sentence_in_an_answer_is_its_text():
    assert encode({"text": OUTER, "all": [INNER]}) == b'{"text":"held by the hold","all":["the hold"]}'
    assert type(plain({"text": OUTER})["text"]) is str
    with pytest.raises(TypeError):
        encode({"value": object()})


def test_a_document_of_a_sentence_has_the_codes_of_all_its_parts():
    inner = {"code": "hold", "fields": {}, "text": "the hold"}
    assert document(OUTER) == {"code": "held", "fields": {"by": inner}, "text": "held by the hold"}
    assert document("plain") == {"code": "", "fields": {}, "text": "plain"}

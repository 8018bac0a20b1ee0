"""Tokenizers of the real classes with tiny vocabularies, put together without training."""

import itertools
from pathlib import Path

from diffprep_resources.demo.words import vocabulary

_WORD_END = "</w>"
_SPACE = "\u2581"
_NUM_EXTRA_IDS = 100
CLIP_LENGTH = 77


def write_clip_tokenizer(folder: Path) -> dict[str, int]:
    """A byte-level BPE in which each demo word is one token; returns the vocabulary.

    The end token has the highest id, as CLIP's pooling expects.
    """
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    letters = sorted(ByteLevel.alphabet())
    merges = _merges(vocabulary())
    tokens = letters + [letter + _WORD_END for letter in letters]
    tokens += [first + second for first, second in merges]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = CLIPTokenizer(vocab=ids, merges=merges, model_max_length=CLIP_LENGTH)  # pyright: ignore[reportArgumentType] "list[tuple[str, str]]" is not assignable to "list[str]"
    tokenizer.save_pretrained(folder)
    return ids


def write_t5_tokenizer(folder: Path) -> int:
    """A Unigram model of the demo words and single ASCII characters; returns its size.

    Ids 0, 1, 2 are padding, end and unknown; the sentinels come last, as in T5.
    """
    from transformers import T5Tokenizer

    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), (_SPACE, -6.0)]
    pieces += [(_SPACE + word, -4.0 - 0.01 * number) for number, word in enumerate(vocabulary())]
    pieces += [(chr(code), -9.0 - 0.01 * (code - 33)) for code in range(33, 127)]
    pieces += [(f"<extra_id_{number}>", 0.0) for number in reversed(range(_NUM_EXTRA_IDS))]
    tokenizer = T5Tokenizer(vocab=pieces, extra_ids=_NUM_EXTRA_IDS, model_max_length=512)
    tokenizer.save_pretrained(folder)
    return len(pieces)


def _merges(words: list[str]) -> list[tuple[str, str]]:
    """BPE merges, in order of rank, that make one token of each word."""
    ranks: dict[tuple[str, str], int] = {}
    for word in words:
        tokens = _split(word, ranks=ranks)
        while len(tokens) > 1:
            ranks.setdefault((tokens[0], tokens[1]), len(ranks))
            tokens = [tokens[0] + tokens[1], *tokens[2:]]
    return list(ranks)


def _split(word: str, *, ranks: dict[tuple[str, str], int]) -> list[str]:
    """The word's tokens under the merges so far: the lowest rank first, as BPE applies them."""
    tokens = [*word[:-1], word[-1] + _WORD_END]
    while True:
        pairs = list(itertools.pairwise(tokens))
        known = [pair for pair in pairs if pair in ranks]
        if not known:
            return tokens
        at = pairs.index(min(known, key=ranks.__getitem__))
        tokens[at : at + 2] = [tokens[at] + tokens[at + 1]]

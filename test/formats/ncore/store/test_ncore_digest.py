from __future__ import annotations

import hashlib
import random

import pytest

from edgefirst_ros.formats.ncore.store.itar import StreamDigest


@pytest.mark.parametrize("largest", [10, 100_000, 3_000_000])
def test_the_digest_is_of_all_pieces_in_their_order(largest: int) -> None:
    rng = random.Random(largest)
    pieces = [rng.randbytes(rng.randrange(largest)) for _ in range(60)]
    digest = StreamDigest()
    for index in range(0, 40, 4):
        digest.update(*pieces[index : index + 4])
    assert digest.hexdigest() == hashlib.md5(b"".join(pieces[:40])).hexdigest()
    for piece in pieces[40:]:
        digest.update(piece)
    digest.close()
    assert digest.hexdigest() == digest.hexdigest() == hashlib.md5(b"".join(pieces)).hexdigest()

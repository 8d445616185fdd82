"""The simulator, in Rust (crates/sim), seen through its skin (crates/py)."""

def version() -> str:
    """The version of the extension, the same as the package's."""

def stream_seed(seed: int, stream: str) -> int:
    """The seed (0 to 2**64 - 1) of the random stream called `stream` under `seed`.

    OverflowError if `seed` is negative or does not fit 64 bits.
    """

def permutation(seed: int, stream: str, n: int) -> list[int]:
    """The numbers 0 to `n` - 1 in a random order: the same for the same seed and stream, on every machine.

    OverflowError if `seed` is outside 0 to 2**64 - 1 or `n` outside 0 to 2**32 - 1.
    """

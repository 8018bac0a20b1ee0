"""One torch thread in each process on the CPU."""


def one_thread_on_cpu(device: str) -> None:
    """Several threads change a sum's order, and with it the last bits; and two processes with
    two threads each on two cores are slower than with one."""
    if device == "cpu":
        import torch

        torch.set_num_threads(1)

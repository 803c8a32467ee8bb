"""The U-Net through the Triton kernels: blocks, and a subclass of the network that uses them."""

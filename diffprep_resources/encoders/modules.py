"""What the encoders' libraries import. It takes seconds, so the workers of a machine share it."""

ENCODER_MODULES = (
    "diffusers.models.autoencoders.autoencoder_kl",
    "transformers.models.clip.modeling_clip",
    "transformers.models.t5.modeling_t5",
)

"""Samplers: SGLD with a replay buffer, and DAM walks; pure steps with explicit generators."""

from gedi.sampling.dam import DamInfo, dam
from gedi.sampling.sgld import Box, ReplayBuffer, distinct, sgld, sgld_step

"""The terms an objective can be made of: settings, and how they call the pure functions of `gedi.objectives`."""

from gedi.training.objective import Term
from gedi.training.terms.clustering import KMeans, Prior, Sinkhorn
from gedi.training.terms.contrastive import InfoNce, NtXent, ProtoCpc
from gedi.training.terms.generative import Contrastive, Energy, Flow, LogSumExp, Vae
from gedi.training.terms.negative_free import Barlow, CorInfoMax, Gaussian, Mec, Vicreg, WMse
from gedi.training.terms.symbolic import Symbolic

# One line a kind: its name within the family is how settings ask for it.
KINDS: dict[str, dict[str, type[Term]]] = {
    "generative": {"energy": Energy, "contrastive": Contrastive, "logsumexp": LogSumExp, "flow": Flow, "vae": Vae},
    "clustering": {"sinkhorn": Sinkhorn, "prior": Prior, "kmeans": KMeans},
    "negative_free": {
        "gaussian": Gaussian,
        "corinfomax": CorInfoMax,
        "mec": Mec,
        "barlow": Barlow,
        "vicreg": Vicreg,
        "w-mse": WMse,
    },
    "contrastive": {"infonce": InfoNce, "nt-xent": NtXent, "protocpc": ProtoCpc},
    "symbolic": {"constraint": Symbolic},
}

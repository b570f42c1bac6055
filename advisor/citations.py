"""The works an answer rests on: plain text and BibTeX of exactly what was used."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec


class Citation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One work. ``key``: BibTeX key. ``authors``: joined by "and". ``link``: arXiv, DOI or project address."""

    key: str
    authors: str
    title: str
    venue: str
    year: int
    link: str

    def plain(self) -> str:
        """One line for a reader."""
        return f"{self.authors.replace(' and ', ', ')}. {self.title}. {self.venue}, {self.year}. {self.link}"

    def bibtex(self) -> str:
        """One BibTeX entry."""
        kind = "misc" if self.venue.startswith(("arXiv", "Software")) else "inproceedings"
        where = "howpublished" if kind == "misc" else "booktitle"
        fields = {
            "author": self.authors,
            "title": "{" + self.title + "}",
            where: self.venue,
            "year": str(self.year),
            "url": self.link,
        }
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
        return f"@{kind}{{{self.key},\n{body}\n}}"


def _work(key: str, authors: str, title: str, venue: str, link: str) -> Citation:
    place, year = venue.rsplit(" ", 1)
    return Citation(key=key, authors=authors, title=title, venue=place, year=int(year), link=link)


_ARXIV = "https://arxiv.org/abs/"
_WORKS = (
    _work(
        "li2022niid",
        "Qinbin Li and Yiqun Diao and Quan Chen and Bingsheng He",
        "Federated Learning on Non-IID Data Silos: An Experimental Study",
        "IEEE International Conference on Data Engineering (ICDE) 2022",
        "https://doi.org/10.1109/ICDE53745.2022.00077",
    ),
    _work(
        "mcmahan2017fedavg",
        'Brendan McMahan and Eider Moore and Daniel Ramage and Seth Hampson and Blaise {Ag{\\"u}era y Arcas}',
        "Communication-Efficient Learning of Deep Networks from Decentralized Data",
        "AISTATS 2017",
        f"{_ARXIV}1602.05629",
    ),
    _work(
        "li2020fedprox",
        "Tian Li and Anit Kumar Sahu and Manzil Zaheer and Maziar Sanjabi and Ameet Talwalkar and Virginia Smith",
        "Federated Optimization in Heterogeneous Networks",
        "MLSys 2020",
        f"{_ARXIV}1812.06127",
    ),
    _work(
        "karimireddy2020scaffold",
        "Sai Praneeth Karimireddy and Satyen Kale and Mehryar Mohri and Sashank Reddi and Sebastian Stich and "
        "Ananda Theertha Suresh",
        "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
        "ICML 2020",
        f"{_ARXIV}1910.06378",
    ),
    _work(
        "wang2020fednova",
        "Jianyu Wang and Qinghua Liu and Hao Liang and Gauri Joshi and H. Vincent Poor",
        "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
        "NeurIPS 2020",
        f"{_ARXIV}2007.07481",
    ),
    _work(
        "hsu2019fedavgm",
        "Tzu-Ming Harry Hsu and Hang Qi and Matthew Brown",
        "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
        "arXiv 2019",
        f"{_ARXIV}1909.06335",
    ),
    _work(
        "reddi2021adaptive",
        "Sashank Reddi and Zachary Charles and Manzil Zaheer and Zachary Garrett and Keith Rush and "
        "Jakub Kone{\\v{c}}n{\\'y} and Sanjiv Kumar and H. Brendan McMahan",
        "Adaptive Federated Optimization",
        "ICLR 2021",
        f"{_ARXIV}2003.00295",
    ),
    _work(
        "acar2021feddyn",
        "Durmus Alp Emre Acar and Yue Zhao and Ramon Matas Navarro and Matthew Mattina and Paul N. Whatmough and "
        "Venkatesh Saligrama",
        "Federated Learning Based on Dynamic Regularization",
        "ICLR 2021",
        f"{_ARXIV}2111.04263",
    ),
    _work(
        "li2021moon",
        "Qinbin Li and Bingsheng He and Dawn Song",
        "Model-Contrastive Federated Learning",
        "CVPR 2021",
        f"{_ARXIV}2103.16257",
    ),
    _work(
        "li2021fedbn",
        "Xiaoxiao Li and Meirui Jiang and Xiaofei Zhang and Michael Kamp and Qi Dou",
        "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
        "ICLR 2021",
        f"{_ARXIV}2102.07623",
    ),
    _work(
        "legate2023wsm",
        "Gwen Legate and Lucas Caccia and Eugene Belilovsky",
        "Re-Weighted Softmax Cross-Entropy to Control Forgetting in Federated Learning",
        "Conference on Lifelong Learning Agents (CoLLAs) 2023",
        f"{_ARXIV}2304.05260",
    ),
    _work(
        "hsieh2020quagmire",
        "Kevin Hsieh and Amar Phanishayee and Onur Mutlu and Phillip Gibbons",
        "The Non-IID Data Quagmire of Decentralized Machine Learning",
        "ICML 2020",
        f"{_ARXIV}1910.00189",
    ),
    _work(
        "terrail2022flamby",
        "Jean {Ogier du Terrail} and Samy-Safwan Ayed and others",
        "FLamby: Datasets and Benchmarks for Cross-Silo Federated Learning in Realistic Healthcare Settings",
        "NeurIPS Datasets and Benchmarks 2022",
        f"{_ARXIV}2210.04620",
    ),
    _work(
        "beutel2020flower",
        "Daniel J. Beutel and Taner Topal and others",
        "Flower: A Friendly Federated Learning Research Framework (baselines niid_bench, fednova, moon)",
        "arXiv 2020",
        f"{_ARXIV}2007.14390",
    ),
    _work(
        "roth2022nvflare",
        "Holger R. Roth and Yan Cheng and others",
        "NVIDIA FLARE: Federated Learning from Simulation to Real-World (CIFAR-10 example)",
        "arXiv 2022",
        f"{_ARXIV}2210.13291",
    ),
    _work(
        "fedbench2025",
        "{FLBenchmark authors}",
        "FedBench 0.1.3: A Federated Learning Benchmarking Framework (results page)",
        "Software 2025",
        "https://pypi.org/project/fedbench/",
    ),
    _work(
        "legate2026baselines",
        "Gwen Legate",
        "Federated Learning Baselines (README table)",
        "Software 2026",
        f"{_ARXIV}2304.05260",
    ),
    _work(
        "karhoutam2023scaffold",
        "{KarhouTam}",
        "SCAFFOLD-PyTorch (README table)",
        "Software 2023",
        "https://github.com/KarhouTam/SCAFFOLD-PyTorch",
    ),
)
CITATIONS: Mapping[str, Citation] = MappingProxyType({work.key: work for work in _WORKS})


def cited(keys: Iterable[str]) -> tuple[Citation, ...]:
    """The works behind some keys, each once, in the order of first use.

    Examples
    --------
    >>> [work.year for work in cited(["li2022niid", "li2020fedprox", "li2022niid"])]
    [2022, 2020]
    """
    return tuple(CITATIONS[key] for key in dict.fromkeys(keys))


def bibtex(works: Iterable[Citation]) -> str:
    """A BibTeX file of some works.

    Examples
    --------
    >>> print(bibtex(cited(["li2021moon"])).splitlines()[0])
    @inproceedings{li2021moon,
    """
    return "\n\n".join(work.bibtex() for work in works) + "\n"

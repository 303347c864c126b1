package guests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/util/cert"

	"github.com/capmcm/cluster-api-provider-mcm/test/guests/qemu"
)

func (p *controlPlane) healthy() qemu.Options { return p.joins() }

func (*controlPlane) withoutMetadata() qemu.Options {
	return qemu.Options{Source: qemu.EC2Silent()}
}

func (*controlPlane) brokenYAML() qemu.Options {
	return boots("#cloud-config\nwrite_files:\n- path: /etc/a\n content: one space too few\n")
}

func (p *controlPlane) elsewhere() qemu.Options {
	return boots(p.join("https://"+nowhere, validToken))
}

// unknownName has a name server that does not answer.
func (p *controlPlane) unknownName() qemu.Options {
	return boots(p.join("https://api.example.com", validToken, "echo nameserver 10.0.2.3 >/etc/resolv.conf"))
}

// otherCA has the boot data of another cluster's CA.
func (p *controlPlane) otherCA() qemu.Options {
	data := p.join("https://"+serviceIP, validToken)
	own := base64.StdEncoding.EncodeToString(p.CA())
	return boots(strings.Replace(data, own, base64.StdEncoding.EncodeToString(p.unrelatedCA()), 1))
}

// inThePast has a clock that was never set.
func (p *controlPlane) inThePast() qemu.Options {
	o := p.joins()
	o.Clock = "2020-01-01"
	return o
}

func (p *controlPlane) expiredToken() qemu.Options {
	return boots(p.join("https://"+serviceIP, expiredToken))
}

// otherNode has the credentials of another node, as a disk that was copied does.
func (p *controlPlane) otherNode() qemu.Options {
	p.Helper()
	file, err := p.KubeconfigFor("system:node:another", "system:nodes")
	p.must(err)
	text, err := os.ReadFile(file)
	p.must(err)
	here := strings.ReplaceAll(string(text), p.URL(), "https://"+serviceIP)
	encoded := base64.StdEncoding.EncodeToString([]byte(here))
	return p.joins("echo " + encoded + " | base64 -d >/etc/kubernetes/kubelet.conf")
}

// noRegistry is a control plane whose images are at a registry that nothing leads to.
func (*controlPlane) noRegistry() qemu.Options {
	return boots("#cloud-config\nruncmd:\n- kubeadm init --image-repository " + nowhere +
		":5000 --ignore-preflight-errors NumCPU,Mem\n")
}

func (p *controlPlane) noCNI() qemu.Options { return p.joins("rm -rf /etc/cni/net.d") }

func (p *controlPlane) fullDisk() qemu.Options {
	return p.joins("dd if=/dev/zero of=/filled bs=4M 2>/dev/null; true")
}

func (p *controlPlane) noRoot() qemu.Options { return with(p.joins(), "root=/dev/vdz rootdelay=5") }

func (p *controlPlane) swapOn() qemu.Options {
	return p.joins("fallocate -l 64M /swap && chmod 600 /swap && mkswap /swap && swapon /swap")
}

func (p *controlPlane) oldCgroups() qemu.Options {
	return with(p.joins(), "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1")
}

// noCRI has a containerd that is configured as Docker's package does it.
func (p *controlPlane) noCRI() qemu.Options {
	return p.joins(`printf 'version = 3\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n' >/etc/containerd/config.toml`,
		"systemctl try-restart containerd")
}

// noModule has a kernel whose modules are not all installed.
func (p *controlPlane) noModule() qemu.Options {
	data := p.join("https://"+serviceIP, validToken, "rm /lib/modules/*/kernel/net/bridge/br_netfilter.ko; depmod")
	return boots(strings.Replace(data, "- [systemctl, start, --no-block, kubelet]",
		"- modprobe br_netfilter && systemctl start --no-block kubelet", 1))
}

func (p *controlPlane) panics() qemu.Options { return p.joins("echo c >/proc/sysrq-trigger") }

// otherArchitecture has a kubelet whose header says that it is for arm64.
func (p *controlPlane) otherArchitecture() qemu.Options {
	const machine = 18 // where the header of an executable has it
	return p.joins(fmt.Sprintf(`printf "\267" | dd of=/usr/local/bin/kubelet bs=1 seek=%d conv=notrunc`, machine))
}

// unrelatedCA is a certificate authority that the API server does not know.
func (p *controlPlane) unrelatedCA() []byte {
	p.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.must(err)
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "another"}, key)
	p.must(err)
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: ca.Raw})
}

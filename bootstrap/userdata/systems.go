package userdata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
)

// The operating systems.
const (
	ubuntu      = "ubuntu"
	debian      = "debian"
	flatcar     = "flatcar"
	rhel        = "rhel"
	rocky       = "rocky"
	amazonLinux = "amazon-linux"
)

// system is a release of an operating system with the minors of Kubernetes that it is for.
type system struct {
	name, version string
	oldest        uint64
}

// newestMinor is the newest minor of Kubernetes whose kubelet's flags and fields have been read.
const newestMinor = 37

// systems are those with cgroup v2, which a kubelet of 1.35 and later wants, and a systemd whose
// oneshot units restart. Release 10 of rhel and rocky is left out: their images lack br_netfilter, which
// kernel-modules-extra has for the newest kernel alone, so a machine would have to restart for it.
var systems = []system{
	{ubuntu, "22.04", 33},
	{ubuntu, "24.04", 33},
	{debian, "12", 33},
	{debian, "13", 33},
	{flatcar, "stable", 33},
	{flatcar, "lts", 33},
	{rhel, "9", 33},
	{rocky, "9", 33},
	{amazonLinux, "2023", 33},
}

// Supported lists each release of an operating system with its minors of Kubernetes.
func Supported() []string {
	list := make([]string, 0, len(systems))
	for _, s := range systems {
		list = append(list, fmt.Sprintf("%s %s with 1.%d to 1.%d", s.name, s.version, s.oldest, newestMinor))
	}
	return list
}

// find returns the entry of an operating system. Minor releases of those that have them count as
// their major one.
func (o OperatingSystem) find() (system, bool) {
	version := o.Version
	if major, minor, ok := strings.Cut(version, "."); ok && (o.Name == rhel || o.Name == rocky || o.Name == debian) {
		if _, err := strconv.Atoi(minor); err == nil {
			version = major
		}
	}
	i := slices.IndexFunc(systems, func(s system) bool { return s.name == o.Name && s.version == version })
	if i < 0 {
		return system{}, false
	}
	return systems[i], true
}

func (o OperatingSystem) usesAPT() bool { return o.Name == ubuntu || o.Name == debian }

func (o OperatingSystem) usesDNF() bool {
	return o.Name == rhel || o.Name == rocky || o.Name == amazonLinux
}

// minor returns the minor of a version of Kubernetes that checkSystem has accepted.
func minor(version string) uint64 {
	v, err := semver.ParseTolerant(version)
	if err != nil {
		return 0
	}
	return v.Minor
}

func (p *problems) checkSystem(s *Spec) {
	p.version("spec.kubernetesVersion", s.KubernetesVersion, "v1.36.3")
	found, ok := s.OperatingSystem.find()
	fits := ok && strings.HasPrefix(s.KubernetesVersion, "v1.") &&
		minor(s.KubernetesVersion) >= found.oldest && minor(s.KubernetesVersion) <= newestMinor
	if !fits {
		p.add("spec.operatingSystem", "%s %s with Kubernetes %s is not supported; choose one of: %s",
			s.OperatingSystem.Name, s.OperatingSystem.Version, s.KubernetesVersion, strings.Join(Supported(), ", "))
	}
}

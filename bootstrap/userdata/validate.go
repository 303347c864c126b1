package userdata

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// validate judges a spec that has its defaults.
func (s *Spec) validate() error {
	p := &problems{}
	p.checkGenerator(s)
	p.checkSystem(s)
	p.oneOf("spec.architecture", s.Architecture, archAMD64, archARM64)
	p.checkCluster(&s.Cluster)
	p.checkNode(&s.Node)
	p.checkRuntime(&s.ContainerRuntime)
	p.checkArtifacts(s)
	p.checkKubelet(&s.Kubelet)
	p.checkProxy(s.Proxy)
	p.checkAccess(s)
	p.checkPolicies(s)
	p.checkPackages(s)
	p.checkKernel(&s.System)
	p.checkFiles(s)
	p.checkUnits(s)
	p.checkCommands(s.Commands)
	return p.err()
}

func (p *problems) checkGenerator(s *Spec) {
	if !slices.Contains(versions, s.GeneratorVersion) {
		p.add("spec.generatorVersion", "%q is unknown; write one of: %s, or leave it out for the newest",
			s.GeneratorVersion, strings.Join(versions, ", "))
	}
}

var domainPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func (p *problems) checkCluster(c *Cluster) {
	if p.required("spec.cluster.endpoint", c.Endpoint, "https://api.example.com:6443") {
		p.address("spec.cluster.endpoint", c.Endpoint, "https")
	}
	p.certificate("spec.cluster.caCertificate", c.CACertificate)
	p.word("spec.cluster.dnsDomain", c.DNSDomain, domainPattern, "cluster.local")
	if len(c.DNSServiceIPs) == 0 {
		p.add("spec.cluster.dnsServiceIPs",
			"it is missing; write the addresses of the cluster's DNS Service, e.g. [10.96.0.10]")
	}
	for i, ip := range c.DNSServiceIPs {
		if _, err := netip.ParseAddr(ip); err != nil {
			p.add(fmt.Sprintf("spec.cluster.dnsServiceIPs[%d]", i), "%q is no IP address; write one like 10.96.0.10", ip)
		}
	}
}

func (p *problems) checkProxy(proxy *Proxy) {
	if proxy == nil {
		return
	}
	for field, value := range map[string]string{"spec.proxy.http": proxy.HTTP, "spec.proxy.https": proxy.HTTPS} {
		if value != "" {
			p.url(field, value, "http", "https")
		}
	}
	if proxy.HTTP == "" && proxy.HTTPS == "" {
		p.add("spec.proxy", "it has no proxy; write http, https or both, or remove it")
	}
	for i, host := range proxy.NoProxy {
		p.word(fmt.Sprintf("spec.proxy.noProxy[%d]", i), host, hostPattern, "10.0.0.0/8 or .example.com")
	}
}

var (
	hostPattern = regexp.MustCompile(`^[A-Za-z0-9.:/_*\[\]-]+$`)
	keyPattern  = regexp.MustCompile(`^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp\d+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+( .*)?$`)
)

func (p *problems) checkAccess(s *Spec) {
	for i, server := range s.NTP.Servers {
		p.word(fmt.Sprintf("spec.ntp.servers[%d]", i), server, hostPattern, "time.example.com")
	}
	for i, key := range s.SSH.AuthorizedKeys {
		field := fmt.Sprintf("spec.ssh.authorizedKeys[%d]", i)
		p.line(field, key)
		if !keyPattern.MatchString(key) {
			p.add(field, "it is no public key; write the line of a .pub file")
		}
	}
}

// checkPolicies is about what an operating system can do by itself.
func (p *problems) checkPolicies(s *Spec) {
	p.oneOf("spec.system.swap", s.System.Swap, swapOff, swapKeep)
	p.oneOf("spec.system.updates", s.System.Updates, updatesOff, updatesSecurity, updatesAll)
	p.oneOf("spec.system.fips", s.System.FIPS, fipsOff, fipsRequire, fipsEnable)
	os := &s.OperatingSystem
	if os.Name == flatcar && s.System.Updates == updatesSecurity {
		p.add("spec.system.updates", "flatcar updates as a whole; write off or all")
	}
	if s.System.FIPS == fipsEnable && !os.usesDNF() {
		p.add("spec.system.fips", "%s %s cannot enable FIPS mode after installation without a subscription's tool; "+
			"use an image that has it and write require", os.Name, os.Version)
	}
}

var packagePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._:~=-]*$`)

func (p *problems) checkPackages(s *Spec) {
	packages := s.OperatingSystem.Packages
	p.oneOf("spec.operatingSystem.packages.base", packages.Base, baseDefault, none)
	if s.OperatingSystem.Name == flatcar && len(packages.Extra) > 0 {
		p.add("spec.operatingSystem.packages.extra", "flatcar has no packages; bring programs as spec.files, or remove it")
	}
	for i, name := range packages.Extra {
		p.word(fmt.Sprintf("spec.operatingSystem.packages.extra[%d]", i), name, packagePattern, "nfs-common")
	}
}

var (
	sysctlPattern = regexp.MustCompile(`^[a-z0-9_]+([./][A-Za-z0-9_*-]+)+$`)
	modulePattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

func (p *problems) checkKernel(s *System) {
	for key, value := range s.Sysctls {
		p.word("spec.system.sysctls", key, sysctlPattern, "vm.max_map_count")
		p.line("spec.system.sysctls["+key+"]", value)
	}
	for i, name := range s.KernelModules {
		p.word(fmt.Sprintf("spec.system.kernelModules[%d]", i), name, modulePattern, "ip_vs")
	}
}

package cloudtest

import (
	"bytes"
	"encoding/base64"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// golden is C05: what the cloud is asked for a class with every field set.
func golden(k *kit) {
	g := k.h.Golden
	k.needs(g != nil && g.Class != nil && g.Normalize != nil && g.File != "", "Harness.Golden")
	c, problems := k.f.Driver().Parse(copyInput(g.Class(k.f)))
	if bad := worst(problems, cloud.BlocksCreate); len(bad) > 0 {
		k.Fatalf("Golden.Class: %v", bad)
	}
	m, a := k.named("golden"), k.account()
	m.token = "11111111-1111-4111-8111-111111111111"
	m.ref.OwnerID = "22222222-2222-4222-8222-222222222222"
	m.tags[cloud.ClusterIDTag] = "33333333-3333-4333-8333-333333333333"
	m.ref.Class = c
	m.userData = []byte("#cloud-config\n{}\n")
	k.proxy.Forget()
	m.create(a)
	var asked []string
	for _, call := range k.proxy.Calls() {
		if !call.Mutates {
			continue
		}
		if text := strings.TrimSpace(g.Normalize(call)); text != "" {
			asked = append(asked, text)
		}
	}
	m.delete(a)
	k.compare(g.File, strings.Join(asked, "\n\n")+"\n")
}

// compare fails unless file holds got. With CLOUDTEST_UPDATE set it writes got.
func (k *kit) compare(file, got string) {
	k.Helper()
	if os.Getenv("CLOUDTEST_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			k.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			k.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		k.Fatalf("%v; CLOUDTEST_UPDATE=1 writes it", err)
	}
	if got != string(want) {
		k.Errorf("the cloud is asked for something else than %s says; if that is right, CLOUDTEST_UPDATE=1 writes "+
			"it.\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

// userData is C21: a VM boots with what was asked for, byte for byte.
func userData(k *kit) {
	k.needs(k.f.Backend.UserData != nil, "Backend.UserData")
	text := "#cloud-config\nruncmd: [date]\n"
	cases := map[string][]byte{
		"Text":   []byte(text),
		"Empty":  {},
		"Base64": []byte(base64.StdEncoding.EncodeToString([]byte(text))),
		"CRLF":   []byte("MIME-Version: 1.0\r\n\r\n--x\r\n"),
		"Binary": allBytes(),
	}
	if limit := k.traits.UserDataMax; limit > 0 {
		cases["Limit"] = bytes.Repeat([]byte("a"), limit)
		k.part("TooLarge", func(k *kit) { tooLarge(k, limit) })
	}
	for name, data := range cases {
		k.part(name, func(k *kit) {
			m, a := k.machine(), k.account()
			m.userData = data
			vm := m.running(a)
			if got := k.f.Backend.UserData(k.T, vm.ID); !bytes.Equal(got, data) {
				k.Errorf("the VM got %d bytes %.60q, want %d bytes %.60q", len(got), got, len(data), data)
			}
			m.delete(a)
		})
	}
}

// allBytes has every byte, and starts as gzip does.
func allBytes() []byte {
	b := []byte{0x1f, 0x8b}
	for i := range 256 {
		b = append(b, byte(i))
	}
	return b
}

// tooLarge is refused before anything happens.
func tooLarge(k *kit, limit int) {
	before, m, a := k.ledger(), k.machine(), k.account()
	m.userData = bytes.Repeat([]byte("a"), limit+1)
	n := k.mutations(func() {
		if _, err := a.Create(k.Context(), m.request()); cloud.CodeOf(err) != cloud.Invalid {
			k.Errorf("create with %d bytes of user data: got %v, want Invalid", limit+1, err)
		}
	})
	if n > 0 {
		k.Errorf("create with too much user data makes %d mutating calls", n)
	}
	k.same(before)
}

// staticAddresses is C35: a VM gets the addresses that its request says, and no request is
// carried out without them.
func staticAddresses(k *kit) {
	if !k.traits.StaticAddresses {
		const why = "Traits.StaticAddresses is not set: the engine refuses static addresses"
		k.row.hole(k.id, why)
		k.Skip(why)
	}
	k.needs(k.f.Backend.Network != nil, "Backend.Network")
	want := []cloud.Interface{{
		Addresses: []cloud.StaticAddress{
			{Prefix: netip.MustParsePrefix("10.35.0.5/24"), Gateway: netip.MustParseAddr("10.35.0.1")},
			{Prefix: netip.MustParsePrefix("fd00:35::5/64")},
		},
		Nameservers: []netip.Addr{netip.MustParseAddr("10.35.0.53")}, SearchDomains: []string{"example.org"},
	}}
	k.part("Given", func(k *kit) {
		m, a := k.machine(), k.account()
		m.network = want
		k.hasNetwork(m.running(a), want)
		m.delete(a)
	})
	k.part("AnswerLost", func(k *kit) {
		m, a := k.machine(), k.account()
		m.network = want
		fault := k.proxy.Inject(Fault{Kind: DropResponse, Match: Mutating})
		_, _ = m.attempt(a)
		k.fires(fault)
		other := k.account()
		k.hasNetwork(m.running(other), want)
		m.only()
		m.delete(other)
	})
	k.part("TooMany", func(k *kit) {
		before, m, a := k.ledger(), k.machine(), k.account()
		const devices = 100
		m.network = slices.Repeat(want, devices)
		n := k.mutations(func() {
			if _, err := a.Create(k.Context(), m.request()); cloud.CodeOf(err) != cloud.Invalid {
				k.Errorf("create with %d devices: got %v, want Invalid", devices, err)
			}
		})
		if n > 0 {
			k.Errorf("create with too many devices makes %d mutating calls", n)
		}
		k.same(before)
	})
}

// hasNetwork fails unless the first interfaces of vm are as the request says.
func (k *kit) hasNetwork(vm cloud.VM, want []cloud.Interface) {
	k.Helper()
	got := k.f.Backend.Network(k.T, vm.ID)
	if len(got) < len(want) || !reflect.DeepEqual(got[:len(want)], want) {
		k.Errorf("the VM has the interfaces %+v, want %+v", got, want)
	}
}

// copyNetwork returns a copy that shares nothing with n.
func copyNetwork(n []cloud.Interface) []cloud.Interface {
	n = slices.Clone(n)
	for i := range n {
		n[i].Addresses = slices.Clone(n[i].Addresses)
		n[i].Nameservers = slices.Clone(n[i].Nameservers)
		n[i].SearchDomains = slices.Clone(n[i].SearchDomains)
	}
	return n
}

// names is C40: the longest name works, and one that the cloud does not take is refused before anything
// is made.
func names(k *kit) {
	limits := k.traits.Names
	fill := "a"
	if limits.Max > 0 {
		longest := "c40-" + strings.Repeat(fill, limits.Max-len("c40-"))
		k.part("Longest", func(k *kit) { k.carries(longest) })
		k.part("TooLong", func(k *kit) { k.refusesName(longest + fill) })
	}
	if limits.Chars != "" {
		wrong := "." // that of a Kubernetes name which clouds often do not take
		if cloud.Outside(wrong, limits.Chars) == "" {
			wrong = "~"
		}
		k.part("Character", func(k *kit) { k.refusesName("c40" + wrong + fill) })
	}
	if limits.First != "" && cloud.Outside("4", limits.First) != "" {
		k.part("Beginning", func(k *kit) { k.refusesName("40-" + fill) })
	}
}

// carries fails unless a machine of that name comes and goes.
func (k *kit) carries(name string) {
	before, m, a := k.ledger(), k.named(name), k.account()
	if vm := m.running(a); vm.Name != name {
		k.Errorf("the VM has the name %q, want %q", vm.Name, name)
	}
	m.only()
	m.delete(a)
	k.same(before)
}

// refusesName fails unless the creation of a machine of that name is Invalid, and asks for nothing.
func (k *kit) refusesName(name string) {
	before, m, a := k.ledger(), k.named(name), k.account()
	n := k.mutations(func() {
		if vm, err := m.attempt(a); cloud.CodeOf(err) != cloud.Invalid {
			k.Errorf("create %q: got %+v, %v, want Invalid", name, vm, err)
		}
	})
	if n > 0 {
		k.Errorf("%d calls of create %q changed something, want none", n, name)
	}
	k.same(before)
}

// carriable returns a name, whose dots are dashes where the cloud takes none.
func (k *kit) carriable(name string) string {
	if cloud.Outside(".", k.traits.Names.Chars) != "" {
		return strings.ReplaceAll(name, ".", "-")
	}
	return name
}

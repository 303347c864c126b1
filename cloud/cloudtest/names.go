package cloudtest

import (
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

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

package cloudtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// cost is C47: what each call costs is known, and what a single machine costs depends on no other VM. Where the harness
// names a page, that shows it, with as many VMs of others as a large account has.
func cost(k *kit) {
	k.needs(k.f.Backend.Seed != nil, "Backend.Seed")
	crowds := []int{1, 100}
	if k.h.CostPage != "" {
		crowds = append(crowds, 10_000)
	}
	var table [][]int
	for _, others := range crowds {
		table = append(table, k.costs(others))
	}
	for i, op := range costly() {
		for j, counts := range table {
			if op.single && counts[i] != table[0][i] {
				k.Errorf("%s takes %d calls among %d VMs of others, and %d alone", op.name, counts[i], crowds[j], table[0][i])
			}
		}
	}
	if k.h.CostPage != "" && !k.Failed() {
		k.shown(k.h.CostPage, crowds, table)
	}
}

// costlyOp is an operation whose calls are counted.
type costlyOp struct {
	name   string
	single bool // it is about one machine
}

func costly() []costlyOp {
	return []costlyOp{
		{"create, to its end", true},
		{"get", true},
		{"get without a providerID", true},
		{"list VMs, of which one is ours", false},
		{"list all kinds", false},
		{"delete, to its end", true},
	}
}

// costs returns the calls of the operations beside so many VMs of others. Pages are calls, and logins do not count.
func (k *kit) costs(others int) (counts []int) {
	k.Helper()
	k.renew()
	if k.f.Backend.FullPages != nil {
		k.f.Backend.FullPages(k.T)
	}
	for range others {
		k.seed(Seed{Kind: cloud.KindVM, Class: k.class, Untagged: true, Age: time.Hour})
	}
	m, a := k.machine(), k.account()
	tally := func(f func() error) {
		k.proxy.Forget()
		if err := f(); err != nil {
			k.Fatalf("beside %d VMs of others: %v", others, err)
		}
		counts = append(counts, count(k.proxy.Calls(), notLogin))
	}
	list := func(kinds ...cloud.Kind) func() error {
		return func() (last error) {
			for _, err := range a.List(k.Context(), k.class, kinds...) {
				last = err
			}
			return last
		}
	}
	tally(func() error { _, err := m.attempt(a); return err })
	m.running(a)
	tally(func() error { _, err := a.Get(k.Context(), m.now()); return err })
	byName := m.now()
	byName.ProviderID = ""
	tally(func() error { _, err := a.Get(k.Context(), byName); return err })
	tally(list(cloud.KindVM))
	tally(list())
	tally(func() error { return m.remove(a) })
	return counts
}

const costHeading = "## Calls\n"

// shown fails unless the page has the table in its section. With CLOUDTEST_UPDATE set it writes that, at the end of a
// page that has none.
func (k *kit) shown(page string, crowds []int, table [][]int) {
	k.Helper()
	var b strings.Builder
	b.WriteString(costHeading + "\nRequests to the cloud, pages counted and logins left out, beside so many VMs of " +
		"others in the same account and place\n(case C47 of the conformance kit writes and compares this table):\n\n")
	head, line := "| |", "|---|"
	for _, n := range crowds {
		head += fmt.Sprintf(" %s |", grouped(n))
		line += "---|"
	}
	b.WriteString(head + "\n" + line + "\n")
	for i, op := range costly() {
		b.WriteString("| " + op.name + " |")
		for _, counts := range table {
			fmt.Fprintf(&b, " %d |", counts[i])
		}
		b.WriteString("\n")
	}
	text, err := os.ReadFile(filepath.Clean(page))
	if err != nil {
		k.Fatal(err)
	}
	want := placed(string(text), b.String())
	switch {
	case want == string(text):
	case os.Getenv("CLOUDTEST_UPDATE") == "":
		k.Errorf("%s does not show these counts; CLOUDTEST_UPDATE=1 writes them:\n%s", page, b.String())
	default:
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			k.Fatal(err)
		}
	}
}

// placed is a page with its section in place of the one of the same heading, or at the end.
func placed(page, section string) string {
	begin := strings.Index(page, "\n"+costHeading)
	if begin < 0 {
		return strings.TrimRight(page, "\n") + "\n\n" + section
	}
	rest := page[begin+1+len(costHeading):]
	if next := strings.Index(rest, "\n## "); next >= 0 {
		return page[:begin+1] + section + rest[next:]
	}
	return page[:begin+1] + section
}

// grouped is a number with a space between thousands.
func grouped(n int) string {
	digits := []byte(fmt.Sprint(n))
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = slices.Insert(digits, at, ' ')
	}
	return string(digits)
}

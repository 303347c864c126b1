package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// soldOut is C32: what one class met says nothing about another one.
func soldOut(k *kit) {
	k.needs(k.f.Elsewhere.Spec != nil && k.f.Memory != nil, "Fixture.Elsewhere or Fixture.Memory")
	row := k.shortage()
	k.f.Wrap = append(k.f.Wrap, k.f.Memory)
	before, a := k.ledger(), k.account()
	match := row.Match
	if match == nil {
		match = Mutating
	}
	fault := k.proxy.Inject(Fault{Kind: Answer, Match: match, Times: Forever, Reply: row.Reply})
	first, refused := k.machine(), k.machine()
	said := k.exhausted(a, refused)
	k.fires(fault)

	k.proxy.Forget()
	again := k.exhausted(a, first)
	if n := count(k.proxy.Calls(), Mutating); n > 0 {
		k.Errorf("what is sold out is asked for again: %d mutating calls", n)
	}
	if now, then := fmt.Sprint(again.Err), fmt.Sprint(said.Err); !strings.HasPrefix(now, then) || now == then {
		k.Errorf("a remembered shortage says %q, want the cloud's text %q, and then that it is remembered", now, then)
	}
	other := k.machine()
	other.ref.Class = k.parse(k.f.Driver(), k.f.Elsewhere)
	other.create(a)
	other.only()
	other.delete(a)
	first.delete(a)
	refused.delete(a)
	k.same(before)
}

// capacityReturns is C41: the machine that was refused gets its one VM under the same token, or under
// the next one where the cloud repeats refusals.
func capacityReturns(k *kit) {
	before, m, a := k.ledger(), k.machine(), k.account()
	restore := k.sellOut()
	if _, err := m.attempt(a); cloud.CodeOf(err) != cloud.Exhausted {
		k.Fatalf("create without capacity: got %v, want Exhausted", err)
	}
	restore()
	if k.traits.StickyKeys {
		m.token = randomID()
	}
	if vm, err := m.attempt(a); err != nil {
		k.Fatalf("create after capacity has returned: got %+v, %v, want a VM", vm, err)
	}
	m.only()
	m.delete(a)
	k.same(before)
}

// sellOut lets the cloud refuse VMs for lack of capacity, until restore is called.
func (k *kit) sellOut() (restore func()) {
	k.Helper()
	if k.f.Backend.SellOut != nil {
		return k.f.Backend.SellOut(k.T)
	}
	row := k.shortage()
	match := row.Match
	if match == nil {
		match = Mutating
	}
	fault := k.proxy.Inject(Fault{Kind: Answer, Match: match, Reply: row.Reply})
	return func() { k.fires(fault) }
}

// shortage returns a row of the error table that says what is sold out.
func (k *kit) shortage() ErrorRow {
	k.Helper()
	var found *ErrorRow
	for i, r := range k.h.Errors {
		if r.Op == "create" && r.Code == cloud.Exhausted && r.Of != nil &&
			(found == nil || r.Of.InstanceType != "" && found.Of.InstanceType == "") {
			found = &k.h.Errors[i]
		}
	}
	k.needs(found != nil, "a row of Harness.Errors of op create and code Exhausted with an Offering")
	return *found
}

// exhausted creates the VM of m, which has to be refused for lack of room.
func (k *kit) exhausted(a cloud.Account, m *machine) *cloud.Error {
	k.Helper()
	_, err := m.attempt(a)
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Exhausted || e.Offering == nil {
		k.Fatalf("create: got %v, want an error of code Exhausted with the offering", err)
	}
	return e
}

// interruptible is C33: whoever may lose a VM at any time knows it.
func interruptible(k *kit) {
	k.needs(len(k.f.Interruptible) > 0, "Fixture.Interruptible")
	d, ok := k.f.Driver().(cloud.Interrupter)
	if !ok {
		k.Fatal("the driver is no cloud.Interrupter")
	}
	if k.f.Elsewhere.Spec != nil && d.Interruptible(k.parse(k.f.Driver(), k.f.Elsewhere)) {
		k.Error("a class that asks for nothing special is interruptible")
	}
	for form, in := range k.f.Interruptible {
		if !d.Interruptible(k.parse(k.f.Driver(), in)) {
			k.Errorf("a class of form %q is not interruptible", form)
		}
	}
}

// amongMany is C34: a machine costs the same calls, however many VMs of others
// there are.
func amongMany(k *kit) {
	k.needs(k.f.Backend.PageSize > 0, "Backend.PageSize")
	alone := k.callsOfLife()
	k.renew()
	n := 3*k.f.Backend.PageSize + 1
	for range n {
		k.seed(Seed{Kind: cloud.KindVM, Class: k.class, Untagged: true})
	}
	if among := k.callsOfLife(); among > alone {
		k.Errorf("a machine takes %d calls among %d VMs of others, %d alone", among, n, alone)
	}
}

// callsOfLife is how many calls a machine takes from its creation to its end,
// waits left out.
func (k *kit) callsOfLife() int {
	k.Helper()
	m, a := k.machine(), k.account()
	k.proxy.Forget()
	_, err := m.attempt(a)
	if err != nil {
		k.Fatalf("create: %v", err)
	}
	calls := count(k.proxy.Calls(), notLogin)
	m.running(a)
	k.proxy.Forget()
	if _, err := a.Get(k.Context(), m.now()); err != nil {
		k.Errorf("get: %v", err)
	}
	byName := m.now()
	byName.ProviderID = ""
	if _, err := a.Get(k.Context(), byName); err != nil {
		k.Errorf("get by name: %v", err)
	}
	if _, err := a.Delete(k.Context(), m.now()); err != nil {
		k.Errorf("delete: %v", err)
	}
	calls += count(k.proxy.Calls(), notLogin)
	m.delete(a)
	return calls
}

// kindsOfListing lists the kinds one by one: each listing shows its kind, all that the
// whole one shows of it, and costs no more calls.
func kindsOfListing(k *kit) {
	k.renew()
	m, a := k.machine(), k.account()
	m.running(a)
	k.proxy.Forget()
	whole := k.listed(a, k.class)
	calls := count(k.proxy.Calls(), notLogin)
	for _, kind := range []cloud.Kind{
		cloud.KindVM, cloud.KindInterface, cloud.KindDisk, cloud.KindAddress, cloud.KindKey,
	} {
		want := map[string]bool{}
		for key, r := range whole {
			if r.Kind == kind {
				want[key] = true
			}
		}
		k.proxy.Forget()
		for r, err := range a.List(k.Context(), k.class, kind) {
			if err != nil {
				k.Errorf("list %s: %v", kind, err)
				break
			}
			if !want[key(r)] {
				k.Errorf("a listing of %s yields %s", kind, key(r))
			}
			delete(want, key(r))
		}
		if len(want) > 0 {
			k.Errorf("a listing of %s misses %v", kind, want)
		}
		if n := count(k.proxy.Calls(), notLogin); n > calls {
			k.Errorf("a listing of %s takes %d calls, one of all kinds %d", kind, n, calls)
		}
	}
	m.delete(a)
}

// SetTags calls SetTags and checks what holds for every one.
func (g *guard) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) (err error) {
	g.k.Helper()
	given := slices.Clone(obsolete)
	g.promptly(ctx, "tags", func(ctx context.Context) { err = cloud.SetTags(ctx, g.next, r, given) })
	if !slices.Equal(given, obsolete) {
		g.k.Error("set tags changes its arguments")
	}
	if err != nil {
		g.checkError("tags", err)
	}
	return err
}

// retagging is C36: tags of VMs that exist follow their class, and no others change.
func retagging(k *kit) {
	k.needs(k.f.Tagged.Spec != nil && k.f.Retagged.Spec != nil, "Fixture.Tagged or Fixture.Retagged")
	both := k.taggedClasses()
	was, is, old, next := both[0].class, both[1].class, both[0].tags, both[1].tags
	before, a := k.ledger(), k.account()
	m, other := k.machine(), k.machine()
	for _, each := range []*machine{m, other} {
		each.ref.Class = was
		each.running(a)
	}
	if k.f.Backend.Seed != nil {
		id, _ := k.f.Driver().DecodeProviderID(m.now().ProviderID)
		k.seed(Seed{Kind: cloud.KindDisk, Class: k.class, Untagged: true, AttachTo: id})
	}
	first, raw := k.tagsIn(k.listed(a, was)), k.tagsOf(k.ledger())
	want := func(set map[string]string, removed []string) map[string]map[string]string {
		all := map[string]map[string]string{}
		for key, r := range k.listed(a, was) {
			tags := maps.Clone(first[key])
			if r.OwnerID == m.ref.OwnerID && carries(tags, old) {
				maps.Copy(tags, set)
				maps.DeleteFunc(tags, func(key, _ string) bool { return slices.Contains(removed, key) })
			}
			all[key] = tags
		}
		return all
	}
	set := func(what string, c cloud.Class, obsolete []string, want map[string]map[string]string) {
		k.Helper()
		m.ref.Class = c
		k.until(what, func() (bool, error) {
			err := a.SetTags(k.Context(), m.now(), obsolete)
			return err == nil, err
		})
		k.sameTags(what, want, a, was)
	}
	set("tags of a changed class, none obsolete", is, nil, want(next, nil))
	lost := missing(old, next)
	set("tags of a changed class, all keys obsolete", is, allKeys(first, raw, old, next), want(next, lost))
	set("the same again", is, lost, want(next, lost))
	k.strangersTags(a, m, want(next, lost), was)
	fault := k.proxy.Inject(Fault{Kind: DropResponse, Match: Mutating})
	set("tags taken back, an answer lost", was, missing(next, old), want(old, missing(next, old)))
	k.fires(fault)
	k.untouchedDisks(raw)
	if vm, err := a.Get(k.Context(), m.now()); err != nil {
		k.Errorf("get after a change of tags: got %+v, %v", vm, err)
	}
	m.delete(a)
	other.delete(a)
	k.sameButDisks(before)
}

// taggedClass is a class with its user tags.
type taggedClass struct {
	class cloud.Class
	tags  map[string]string
}

// taggedClasses are the two classes of the fixture: as they were, and as they are.
func (k *kit) taggedClasses() [2]taggedClass {
	k.Helper()
	d := k.f.Driver()
	t, ok := d.(cloud.Tagger)
	if !ok {
		k.Fatal("the driver is no cloud.Tagger")
	}
	was, is := k.parse(d, k.f.Tagged), k.parse(d, k.f.Retagged)
	old, next := t.UserTags(was), t.UserTags(is)
	changed := 0
	for key, value := range old {
		if now, there := next[key]; there && now != value {
			changed++
		}
	}
	k.needs(len(missing(old, next)) > 0 && len(missing(next, old)) > 0 && changed > 0,
		"a tag that is new, one that is gone and one with another value in Fixture.Retagged")
	return [2]taggedClass{{was, old}, {is, next}}
}

// strangersTags names another machine's VM: nothing changes.
func (k *kit) strangersTags(a *guard, m *machine, want map[string]map[string]string, class cloud.Class) {
	k.Helper()
	ref := m.now()
	ref.OwnerID, ref.Class = randomID(), class
	if err := a.SetTags(k.Context(), ref, nil); cloud.CodeOf(err) != cloud.NotFound {
		k.Errorf("set tags of the VM of another owner: got %v, want NotFound", err)
	}
	k.sameTags("tags for another owner", want, a, class)
}

// sameTags fails unless the tags of all that is listed become these.
func (k *kit) sameTags(what string, want map[string]map[string]string, a *guard, c cloud.Class) {
	k.Helper()
	var got map[string]map[string]string
	same := func() bool {
		got = k.tagsIn(k.listed(a, c))
		return maps.EqualFunc(got, want, maps.Equal[map[string]string])
	}
	for range 5 { // a cloud may carry a change out after its answer
		if same() {
			return
		}
		k.pass(0)
	}
	for key, tags := range want {
		if !maps.Equal(got[key], tags) {
			k.Errorf("%s: %s has the tags %v, want %v", what, key, got[key], tags)
		}
	}
}

// untouchedDisks fails if a disk that Create did not make has tags.
func (k *kit) untouchedDisks(before map[string]map[string]string) {
	k.Helper()
	for key, tags := range k.tagsOf(k.ledger()) {
		if len(before[key]) == 0 && len(tags) > 0 {
			k.Errorf("%s, which create did not make, gets the tags %v", key, tags)
		}
	}
}

// sameButDisks is same without the disks that Create did not make.
func (k *kit) sameButDisks(before []cloud.Resource) {
	k.Helper()
	had := keys(before)
	for _, r := range k.ledger() {
		if !had[key(r)] && (r.Kind != cloud.KindDisk || r.OwnerID != "") {
			k.Errorf("left behind: %s", key(r))
		}
	}
}

func (k *kit) tagsIn(all map[string]cloud.Resource) map[string]map[string]string {
	return k.tagsOf(slices.Collect(maps.Values(all)))
}

// tagsOf are the tags of resources, by key.
func (k *kit) tagsOf(all []cloud.Resource) map[string]map[string]string {
	tags := map[string]map[string]string{}
	for _, r := range all {
		tags[key(r)] = maps.Clone(r.Tags)
	}
	return tags
}

// missing are the keys of a that b lacks, sorted.
func missing(a, b map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(key string) bool { _, there := b[key]; return there })
}

// carries reports whether tags has all of these.
func carries(tags, all map[string]string) bool {
	for key, value := range all {
		if has, there := tags[key]; !there || has != value {
			return false
		}
	}
	return true
}

// allKeys are all keys of tags that anything in the cloud has, and these.
func allKeys(first, raw map[string]map[string]string, more ...map[string]string) []string {
	all := map[string]bool{}
	for _, tags := range slices.Concat(slices.Collect(maps.Values(first)), slices.Collect(maps.Values(raw)), more) {
		for key := range tags {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

package cloudtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// worst returns the problems of at least that severity.
func worst(problems []cloud.Problem, least cloud.Severity) []cloud.Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p cloud.Problem) bool { return p.Severity < least })
}

// samples is C01: what MCM's users have parses, with MCM's leniency.
func samples(k *kit) {
	k.needs(len(k.h.Samples) > 0, "Harness.Samples")
	d := k.f.Driver()
	for _, s := range k.h.Samples {
		c, problems := d.Parse(copyInput(s.Class))
		if bad := worst(problems, cloud.BlocksCreate); len(bad) > 0 {
			k.Errorf("sample %s: %v", s.Name, bad)
		}
		if again, _ := d.Parse(copyInput(s.Class)); !reflect.DeepEqual(again, c) {
			k.Errorf("sample %s parses differently the second time: %+v, %+v", s.Name, c, again)
		}
		if c.Owner == "" || c.Name != s.Class.Name || c.Namespace != s.Class.Namespace {
			k.Errorf("sample %s: Owner %q, name %s/%s: want an Owner and the class's name", s.Name, c.Owner, c.Namespace, c.Name)
		}
		k.unknownField(d, s, c, problems)
		k.keyCase(d, s, c)
		if len(s.Defaulted) == 0 {
			continue
		}
		in := copyInput(s.Class)
		in.Spec = s.Defaulted
		if full, _ := d.Parse(in); !reflect.DeepEqual(full, c) {
			k.Errorf("sample %s: the defaults are not MCM's:\n got %+v\nwant %+v", s.Name, c, full)
		}
	}
	k.part("Junk", junk)
}

// fields returns the object in a provider spec.
func (k *kit) fields(spec []byte) map[string]json.RawMessage {
	k.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(spec, &m); err != nil {
		k.Fatalf("the spec of a sample is no object: %v", err)
	}
	return m
}

// with returns in with another spec.
func (k *kit) with(in cloud.ClassInput, fields map[string]json.RawMessage) cloud.ClassInput {
	k.Helper()
	spec, err := json.Marshal(fields)
	if err != nil {
		k.Fatalf("encode spec: %v", err)
	}
	in = copyInput(in)
	in.Spec = spec
	return in
}

// unknownField adds an unknown field, which is a warning and changes nothing else.
func (k *kit) unknownField(d cloud.Driver, s Sample, want cloud.Class, before []cloud.Problem) {
	k.Helper()
	const name = "cloudtestUnknown"
	fields := k.fields(s.Class.Spec)
	fields[name] = json.RawMessage(`{"a":[1]}`)
	c, problems := d.Parse(k.with(s.Class, fields))
	if !reflect.DeepEqual(c, want) {
		k.Errorf("sample %s: an unknown field changes the class", s.Name)
	}
	if len(worst(problems, cloud.BlocksCreate)) > 0 || len(problems) != len(before)+1 ||
		!slices.ContainsFunc(problems, func(p cloud.Problem) bool { return strings.Contains(p.Field, name) }) {
		k.Errorf("sample %s: an unknown field has to give one warning that names it, got %v", s.Name, problems)
	}
}

// keyCase spells the keys of a sample in another case.
func (k *kit) keyCase(d cloud.Driver, s Sample, want cloud.Class) {
	k.Helper()
	if k.h.CaseSensitive {
		return
	}
	fields := map[string]json.RawMessage{}
	for name, v := range k.fields(s.Class.Spec) {
		fields[strings.ToUpper(name)] = v
	}
	if c, _ := d.Parse(k.with(s.Class, fields)); !reflect.DeepEqual(c, want) {
		k.Errorf("sample %s: the case of keys matters:\n got %+v\nwant %+v", s.Name, c, want)
	}
}

// junk is C01/Junk: whatever stands there, Parse returns and says no.
func junk(k *kit) {
	d := k.f.Driver()
	deep := strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500)
	for _, spec := range []string{"", "null", "[]", `"x"`, "7", "{}", `{"a`, "{\"a\":\xff}", deep} {
		in := copyInput(k.f.Class)
		in.Spec = []byte(spec)
		_, problems := d.Parse(in)
		if len(worst(problems, cloud.BlocksCreate)) == 0 {
			k.Errorf("Parse accepts %.40q", spec)
		}
		k.wellFormed(problems)
	}
}

// wellFormed checks what holds for all problems that come together.
func (k *kit) wellFormed(problems []cloud.Problem) {
	k.Helper()
	if !slices.IsSortedFunc(problems, func(a, b cloud.Problem) int { return strings.Compare(a.Field, b.Field) }) {
		k.Errorf("problems are not sorted by field: %v", problems)
	}
	for _, p := range problems {
		if p.Field == "" || p.Message == "" || strings.HasSuffix(p.Message, ".") || p.Severity > cloud.BlocksAll {
			k.Errorf("want a field, a message without a full stop and a severity, got %+v", p)
		}
	}
}

// rules is C02: the validation table.
func rules(k *kit) {
	d, accepted, rejected := k.f.Driver(), 0, 0
	for _, r := range k.h.Rules {
		_, problems := d.Parse(copyInput(r.Class))
		k.wellFormed(problems)
		if r.Field == "" {
			accepted++
		} else {
			rejected++
		}
		found := slices.ContainsFunc(problems, func(p cloud.Problem) bool {
			return p.Field == r.Field && p.Severity >= r.Severity && (r.Severity > cloud.Warning || p.Severity == cloud.Warning)
		})
		if r.Field != "" && !found {
			k.Errorf("rule %s: want a problem with %s of severity %d, got %+v\nbecause: %s", r.Name, r.Field, r.Severity,
				problems, r.Reason)
		}
		if bad := worst(problems, cloud.BlocksCreate); len(bad) > 0 && (r.Field == "" || r.Severity == cloud.Warning) {
			k.Errorf("rule %s: must be accepted, got %+v\nbecause: %s", r.Name, bad, r.Reason)
		}
	}
	k.needs(accepted > 0 && rejected > 0, "Harness.Rules with both accepted and rejected rows")
}

// secrets is C03: which Secrets will do.
func secrets(k *kit) {
	d := k.f.Driver()
	check := func(name string, creds cloud.Credentials) []cloud.Problem {
		problems := d.CheckSecret(k.class, creds)
		k.wellFormed(problems)
		g := guard{k: k, secrets: forbidden(k.f.Credentials, k.f.Public)}
		g.checkText("CheckSecret of "+name, fmt.Sprint(problems))
		return worst(problems, cloud.BlocksCreate)
	}
	valid := copyCredentials(k.f.Credentials)
	delete(valid, "userData")
	if bad := check("credentials without userData", valid); len(bad) > 0 {
		k.Errorf("get, delete and list need no userData, got %v", bad)
	}
	if len(worst(d.CheckSecret(k.class, nil), cloud.BlocksAll)) == 0 && len(k.f.Credentials) > 0 {
		k.Error("CheckSecret accepts a Secret without entries")
	}
	k.needs(len(k.h.Secrets) > 0, "Harness.Secrets")
	k.declared("the credentials", k.f.Credentials)
	for _, s := range k.h.Secrets {
		creds := s.Credentials(copyCredentials(k.f.Credentials))
		k.declared("secret "+s.Name, creds)
		bad := check(s.Name, creds)
		if s.Missing == "" {
			if len(bad) > 0 {
				k.Errorf("secret %s: must do, got %v\nbecause: %s", s.Name, bad, s.Reason)
				continue
			}
			k.works(s, creds)
			continue
		}
		if !slices.ContainsFunc(bad, func(p cloud.Problem) bool { return p.Field == s.Missing }) {
			k.Errorf("secret %s: want a problem with %s, got %v\nbecause: %s", s.Name, s.Missing, bad, s.Reason)
		}
	}
}

// declared fails unless the driver declares each entry that it logs in with in one group of
// Traits.Secret: what is not declared is redacted too little, and may come from another Secret. All
// entries of a legacy driver count as credentials.
func (k *kit) declared(name string, creds cloud.Credentials) {
	k.Helper()
	t := k.f.Driver().Traits()
	if t.Legacy {
		return
	}
	only := cloud.Credentials{}
	for key, value := range creds {
		groups := 0
		for _, group := range [][]string{t.Secret.Address, t.Secret.Credential, t.Secret.Public} {
			if slices.Contains(group, key) {
				groups++
			}
		}
		switch {
		case groups == 1:
			only[key] = value
		case groups > 1 || cloud.IsBootData(key) != (groups == 0):
			k.Errorf("%s: entry %s is in %d groups of Traits.Secret, want 1, or 0 for boot data", name, key, groups)
		}
	}
	whole, declared := k.f.Driver().CheckSecret(k.class, creds), k.f.Driver().CheckSecret(k.class, only)
	if !slices.Equal(whole, declared) {
		k.Errorf("%s: got %v, and %v without the entries that are not declared", name, whole, declared)
	}
}

// works fails unless these credentials open an account that can list.
func (k *kit) works(s Secret, creds cloud.Credentials) {
	k.Helper()
	a, err := k.open(creds)
	if err != nil {
		k.Errorf("secret %s: open: %v\nbecause: %s", s.Name, err, s.Reason)
		return
	}
	for _, err := range a.List(k.Context(), k.class) {
		if err != nil {
			k.Errorf("secret %s: list: %v\nbecause: %s", s.Name, err, s.Reason)
		}
	}
}

// providerIDs is C13: every known form decodes, and what is written is MCM's.
func providerIDs(k *kit) {
	d := k.f.Driver()
	k.needs(len(k.h.ProviderIDs) > 0, "Harness.ProviderIDs")
	k.needs(k.h.ProviderID != nil, "Harness.ProviderID")
	for _, p := range append(k.h.ProviderIDs, ProviderID{Form: "none"},
		ProviderID{Form: "other cloud", Value: "no-such-cloud:///a/b/c"}) {
		if id, ok := d.DecodeProviderID(p.Value); id != p.ID || ok != (p.ID != "") {
			k.Errorf("decode %q (%s): got %q, %v, want %q\nbecause: %s", p.Value, p.Form, id, ok, p.ID, p.Reason)
		}
	}
	m, a := k.machine(), k.account()
	vm := m.running(a)
	mcm, node := k.h.ProviderID(vm, k.class)
	if vm.ProviderID != mcm || vm.NodeProviderID != node {
		k.Errorf("providerIDs: got %q and %q, want MCM's %q and the node's %q", vm.ProviderID, vm.NodeProviderID, mcm, node)
	}
	for _, form := range []string{vm.ProviderID, vm.NodeProviderID} {
		if id, ok := d.DecodeProviderID(form); id != vm.ID || !ok {
			k.Errorf("decode %q: got %q, %v, want %q", form, id, ok, vm.ID)
		}
		ref := m.now()
		ref.ProviderID = form
		if got, err := a.Get(k.Context(), ref); err != nil || got.ID != vm.ID {
			k.Errorf("get by %q: got %q, %v, want %q", form, got.ID, err, vm.ID)
		}
	}
	ref := m.now()
	ref.ProviderID = vm.NodeProviderID
	m.ref = ref
	m.delete(a)
	m.gone(a)
}

// volumes is C25: the volumes behind persistent volumes.
func volumes(k *kit) {
	n, ok := k.f.Driver().(cloud.VolumeNamer)
	k.needs(ok, "the method VolumeID of the driver")
	k.needs(len(k.h.Volumes) > 0, "Harness.Volumes")
	rows := append(slices.Clone(k.h.Volumes),
		Volume{Name: "nothing"}, Volume{Name: "foreign", Volume: cloud.Volume{
			Driver: "csi.no-such-cloud.example",
			Handle: "vol-1",
		}})
	for _, v := range rows {
		if id, ok := n.VolumeID(v.Volume); id != v.ID || ok != (v.ID != "") {
			k.Errorf("volume %s: got %q, %v, want %q", v.Name, id, ok, v.ID)
		}
	}
}

// capacity is C27: what a node will offer.
func capacity(k *kit) {
	a := k.account()
	got, err := a.Capacity(k.Context(), k.class)
	if err != nil {
		k.Fatalf("capacity: %v", err)
	}
	k.needs(len(k.h.Capacity.Resources) > 0, "Harness.Capacity")
	if got.Architecture != k.h.Capacity.Architecture || !maps.Equal(got.Resources, k.h.Capacity.Resources) {
		k.Errorf("capacity: got %+v, want %+v", got, k.h.Capacity)
	}
	k.part("Unknown", func(k *kit) {
		k.needs(len(k.f.UnknownType.Spec) > 0, "Fixture.UnknownType")
		c, _ := k.f.Driver().Parse(copyInput(k.f.UnknownType))
		got, err := a.Capacity(k.Context(), c)
		if cloud.CodeOf(err) != cloud.Invalid {
			k.Errorf("capacity of an unknown type: got %+v, %v, want Invalid", got, err)
		}
	})
	k.part("Canceled", func(k *kit) {
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		// A driver that knows its types by heart may answer all the same.
		_, _ = a.Capacity(ctx, k.class)
	})
}

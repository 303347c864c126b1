package vsphere_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	vapitags "github.com/vmware/govmomi/vapi/tags"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
)

// categories makes two: of zones a VM has one tag, of teams any number.
func (s *vcsim) categories(t testing.TB) (zones, teams []string) {
	t.Helper()
	types := []string{"VirtualMachine"}
	zones, err := s.Category(t.Context(), vapitags.Category{
		Name: "zones", Cardinality: "SINGLE", AssociableTypes: types,
	}, "a", "b")
	must(t, err)
	teams, err = s.Category(t.Context(), vapitags.Category{Name: "teams", Cardinality: "MULTIPLE"}, "blue", "red")
	must(t, err)
	return zones, teams
}

// named is a tag by its name.
func named(category, name string) spec { return spec{"category": category, "name": name} }

// TestVSphereTags: tags are attached by id and by name before the VM starts, also when the
// session of the REST API ends in between.
func TestVSphereTags(t *testing.T) {
	t.Parallel()
	s := start(t)
	zones, _ := s.categories(t)
	a, c := s.open(t, class("tagged", spec{"vsphereTags": []any{
		spec{"id": zones[0]}, named("teams", "blue"), named("teams", "red"),
	}}))
	for _, name := range []string{"m", "again"} {
		r := ask(name, c)
		vm, err := s.finish(t, a, r)
		must(t, err)
		got, err := s.Tags(t.Context(), s.handle(t, vm.ID))
		if want := []string{"a", "blue", "red"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got tags %v, %v, want %v", name, got, err, want)
		}
		s.gone(t, a, r.Ref)
		s.expire(t)
	}
	if n := len(slices.DeleteFunc(s.proxy.Calls(), func(c cloudtest.Call) bool { return c.Op != restLogin })); n != 2 {
		t.Errorf("%d logins to the REST API, want one for each session", n)
	}
}

// TestWrongVSphereTags: what is wrong with tags is found before anything is made.
func TestWrongVSphereTags(t *testing.T) {
	t.Parallel()
	s := start(t)
	zones, _ := s.categories(t)
	_, err := s.Category(t.Context(), vapitags.Category{
		Name: "hosts", Cardinality: "SINGLE", AssociableTypes: []string{"HostSystem"},
	}, "h")
	must(t, err)
	for field, wanted := range map[string][]any{
		"vsphereTags[0].category": {named("nowhere", "a")},
		"vsphereTags[0].name":     {named("zones", "c")},
		"vsphereTags[1].id":       {named("zones", "a"), spec{"id": zones[0] + "0"}},
		"vsphereTags[1]":          {named("zones", "a"), named("zones", "b")},
		"vsphereTags[0]":          {named("hosts", "h")},
	} {
		a, c := s.open(t, class("tagged", spec{"vsphereTags": wanted}))
		s.refusesCreate(t, a, c, field)
	}
}

// refusesCreate asks for a machine and wants a problem with one field, before anything is
// made.
func (s *vcsim) refusesCreate(t *testing.T, a cloud.Account, c cloud.Class, field string) {
	t.Helper()
	before := len(s.all(t))
	r := ask("refused", c)
	_, err := s.finish(t, a, r)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Invalid || len(e.Problems) != 1 || e.Problems[0].Field != "providerSpec."+field ||
		!strings.Contains(e.Problems[0].Message, "; ") {
		t.Errorf("%s: got %v, want Invalid with the field and a remedy", field, err)
	}
	if got := len(s.all(t)); got != before || r.State != "" {
		t.Errorf("%s: %d VMs and checkpoint %q, want %d and none", field, got, r.State, before)
	}
}

// TestReplacedVSphereTag: a tag that was replaced since it was looked up is looked up again.
func TestReplacedVSphereTag(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.categories(t)
	a, c := s.open(t, class("tagged", spec{"vsphereTags": []any{named("teams", "blue")}}))
	s.proxy.Inject(cloudtest.Fault{
		Kind:  cloudtest.Answer,
		Match: func(c cloudtest.Call) bool { return strings.Contains(c.Op, " attach") },
		Reply: cloudtest.Reply{
			Status: http.StatusNotFound, Body: `{"type":"com.vmware.vapi.std.errors.not_found","value":{"messages":[]}}`,
		},
	})
	r := ask("m", c)
	if _, err := s.finish(t, a, r); cloud.CodeOf(err) != cloud.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	looks := func() int {
		return len(slices.DeleteFunc(s.proxy.Calls(), func(c cloudtest.Call) bool {
			return !strings.HasPrefix(c.Op, "GET ") || !strings.Contains(c.Op, "/tagging/category")
		}))
	}
	before := looks()
	if _, err := s.finish(t, a, r); err != nil || before == 0 || looks() == before {
		t.Errorf("again: got %v, %d looks for the category and then %d, want another one", err, before, looks())
	}
	s.gone(t, a, r.Ref)
}

// TestVSphereTagDenied: without the privilege the error names it.
func TestVSphereTagDenied(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.categories(t)
	a, c := s.open(t, class("tagged", spec{"vsphereTags": []any{named("teams", "blue")}}))
	s.Deny(vcentertest.AttachTag, true)
	r := ask("m", c)
	_, err := s.finish(t, a, r)
	if cloud.CodeOf(err) != cloud.Denied || !strings.Contains(err.Error(), vcentertest.AttachTag) {
		t.Errorf("got %v, want Denied and the privilege", err)
	}
	s.Deny(vcentertest.AttachTag, false)
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("with the privilege: got %v, %v, want a running VM", vm.State, err)
	}
	s.gone(t, a, r.Ref)
}

// TestRESTLoginDenied: when the REST API lets the user not in, calls of the SOAP API go on,
// also after another login. Only refused credentials are not tried again.
func TestRESTLoginDenied(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.categories(t)
	d := s.driver()
	open := func() (cloud.Account, cloud.Class) {
		c, _ := d.Parse(class("tagged", spec{"vsphereTags": []any{named("teams", "blue")}}))
		a, err := d.Open(t.Context(), c, s.credentials())
		must(t, err)
		t.Cleanup(func() { _ = a.(io.Closer).Close() })
		return a, c
	}
	a, c := open()
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized} {
		again := status == http.StatusForbidden
		r := ask("m", c)
		fault := s.proxy.Inject(cloudtest.Fault{
			Kind: cloudtest.Answer, Match: cloudtest.Op(restLogin), Reply: cloudtest.Reply{Status: status},
		})
		if _, err := s.finish(t, a, r); cloud.CodeOf(err) != cloud.Denied {
			t.Errorf("%d: got %v, want Denied", status, err)
		}
		fault.Undo()
		s.expire(t)
		if _, err := a.Get(t.Context(), r.Ref); cloud.CodeOf(err) != cloud.NotFound && err != nil {
			t.Errorf("%d: a look for the VM: got %v", status, err)
		}
		other, _ := open()
		if _, err := s.finish(t, other, r); again != (err == nil) {
			t.Errorf("%d: a tag after that: got %v, want another login %v", status, err, again)
		}
		s.gone(t, a, r.Ref)
	}
}

// TestLibraryItem clones a VM template of a content library.
func TestLibraryItem(t *testing.T) {
	t.Parallel()
	s := start(t)
	must(t, s.Publish(t.Context(), "images", "ubuntu", "flatcar.ovf"))
	from := func(library, item string) cloud.ClassInput {
		return class("library", spec{"templateVM": nil, "libraryItem": spec{"library": library, "item": item}})
	}
	a, c := s.open(t, from("images", "ubuntu"))
	r := ask("m", c)
	s.proxy.Forget()
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("got %v, %v, want a running VM", vm.State, err)
	}
	if template, err := s.Finder.VirtualMachine(t.Context(), vcentertest.Template); err != nil || len(s.clones()) != 1 ||
		strings.Contains(s.clones()[0], ">"+template.Reference().Value+"<") {
		t.Errorf("got clones %v, %v, want one of the item's template", s.clones(), err)
	}
	s.gone(t, a, r.Ref)
	for field, in := range map[string]cloud.ClassInput{
		"libraryItem.library": from("elsewhere", "ubuntu"), "libraryItem.item": from("images", "debian"),
	} {
		_, c := s.open(t, in)
		s.refusesCreate(t, a, c, field)
	}
	_, c = s.open(t, from("images", "flatcar.ovf"))
	s.refusesCreate(t, a, c, "libraryItem.item")
}

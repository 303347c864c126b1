package gcp_test

import (
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestDeletionProtection: the protection that a class asks for ends with its machine. One that a person has
// set on the instance is kept, whoever wants the machine to go.
func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	protected := class(spec{"deletionProtection": true})
	a, c := w.open(protected, credentials())
	m := newMachine("m-1", c)
	if _, err := w.create(a, m); err != nil {
		t.Fatal(err)
	}
	_, plain := w.open(class(nil), credentials())
	m.Class = plain
	if err := w.remove(a, m.Ref); cloud.CodeOf(err) != cloud.Denied || len(w.Things()) == 0 {
		t.Fatalf("delete what a person protects: %v, %d things left; want Denied and the VM", err, len(w.Things()))
	}
	m.Class = c
	if err := w.remove(a, m.Ref); err != nil || len(w.Things()) != 0 {
		t.Errorf("delete an instance that its class protects: %v, %d things left; want none", err, len(w.Things()))
	}
}

package wrap_test

import (
	"context"
	"errors"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// inScope is an account of that name; a nil one cannot be named.
type inScope struct {
	*account
	name string
	err  error
}

func (a inScope) Scope(context.Context, cloud.Class) (string, error) { return a.name, a.err }

// TestScopes has calls for a machine whose VM was recorded in one account, in another one: whatever the
// other one says, nothing is believed gone there, made or removed.
func TestScopes(t *testing.T) {
	t.Parallel()
	const here, there = "project a", "project b"
	ours := cloud.VM{ID: "1", OwnerID: "owner"}
	for name, row := range map[string]struct {
		reason        string
		recorded, now string
		failure       error
		found         *cloud.VM
		get, remove   cloud.Code
		why           string
		deletion      int // calls of Delete that reach the cloud
	}{
		"no record": {
			reason: "a machine of before has none", now: here, get: cloud.NotFound, deletion: 1,
		},
		"equal": {reason: "the account is the one", recorded: here, now: here, get: cloud.NotFound, deletion: 1},
		"another one": {
			reason: "there the VM does not exist", recorded: here, now: there,
			get: cloud.Denied, remove: cloud.Denied, why: cloud.ReasonWrongScope,
		},
		"another token that shows the VM": {
			reason: "tokens are rotated", recorded: cloud.VagueScope("token 1"), now: cloud.VagueScope("token 2"), found: &ours,
			deletion: 1,
		},
		"another token that shows nothing": {
			reason: "it may be of another project", recorded: cloud.VagueScope("token 1"), now: cloud.VagueScope("token 2"),
			get: cloud.Denied, remove: cloud.Denied, why: cloud.ReasonUnprovenScope,
		},
		"another token that shows the VM of another machine": {
			reason: "names and numbers may be the same in two accounts", recorded: cloud.VagueScope("token 1"),
			now: cloud.VagueScope("token 2"), found: &cloud.VM{ID: "1", OwnerID: "another"},
			get: cloud.Denied, remove: cloud.Denied, why: cloud.ReasonUnprovenScope,
		},
		"an account that does not tell its name": {
			reason: "what names it may be out of reach", recorded: here, failure: errors.New("no answer"),
			get: cloud.Denied, remove: cloud.Denied, why: cloud.ReasonUnprovenScope,
		},
		"the VM in an account that does not tell its name": {
			reason: "it proves the account", recorded: here, failure: errors.New("no answer"), found: &ours,
			deletion: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := inScope{name: row.now, err: row.failure, account: &account{
				get: func(context.Context, cloud.Ref) (cloud.VM, error) {
					if row.found == nil {
						return cloud.VM{}, cloud.Errorf(cloud.NotFound, "get VM", "NotFound", "no such VM")
					}
					return *row.found, nil
				},
				delete: func(context.Context, cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{Done: true}, nil },
			}}
			a := wrap.Scopes()(cloud.AccountInfo{}, next)
			ref := cloud.Ref{Name: "m", OwnerID: "owner", Scope: row.recorded}
			_, err := a.Get(t.Context(), ref)
			check(t, row.reason, "get", err, row.get, row.why)
			d, err := a.Delete(t.Context(), ref)
			check(t, row.reason, "delete", err, row.remove, row.why)
			if err != nil && d.Done {
				t.Errorf("%s: a deletion that is refused is done", row.reason)
			}
			_, err = a.Create(t.Context(), cloud.CreateRequest{Ref: ref})
			check(t, row.reason, "create", err, row.remove, row.why)
			if got := next.made("delete"); got != row.deletion {
				t.Errorf("%s: %d deletions reached the cloud, want %d", row.reason, got, row.deletion)
			}
			if row.remove != cloud.Unknown && next.made("create") > 0 {
				t.Errorf("%s: a VM was asked for in another account", row.reason)
			}
		})
	}
}

func check(t *testing.T, reason, op string, err error, want cloud.Code, why string) {
	t.Helper()
	if want == cloud.Unknown {
		if err != nil {
			t.Errorf("%s: %s: got %v", reason, op, err)
		}
		return
	}
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != want || why != "" && e.Reason != why {
		t.Errorf("%s: %s: got %v, want %v %s", reason, op, err, want, why)
	}
}

// TestScopesRemember shows one VM of a record through a new token: then that token is believed about
// the other machines with that record, too.
func TestScopesRemember(t *testing.T) {
	t.Parallel()
	next := inScope{name: cloud.VagueScope("token 2"), account: &account{
		get: func(_ context.Context, r cloud.Ref) (cloud.VM, error) {
			if r.Name == "gone" {
				return cloud.VM{}, cloud.Errorf(cloud.NotFound, "get VM", "NotFound", "no such VM")
			}
			return cloud.VM{ID: "1", OwnerID: r.OwnerID}, nil
		},
		delete: func(context.Context, cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{Done: true}, nil },
	}}
	a := wrap.Scopes()(cloud.AccountInfo{}, next)
	recorded := cloud.VagueScope("token 1")
	gone := cloud.Ref{Name: "gone", OwnerID: "2", Scope: recorded}
	if _, err := a.Delete(t.Context(), gone); cloud.CodeOf(err) != cloud.Denied {
		t.Fatalf("before any VM is seen: got %v, want Denied", err)
	}
	if _, err := a.Get(t.Context(), cloud.Ref{Name: "there", OwnerID: "1", Scope: recorded}); err != nil {
		t.Fatal(err)
	}
	if d, err := a.Delete(t.Context(), gone); err != nil || !d.Done {
		t.Errorf("after a VM of the record was seen: got %+v, %v, want done", d, err)
	}
}

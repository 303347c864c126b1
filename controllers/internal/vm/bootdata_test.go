package vm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// booting is an account that keeps boot data.
type booting struct {
	cloud.Account
	calls int
	err   error
}

func (a *booting) RemoveBootData(context.Context, cloud.Ref) error { a.calls++; return a.err }

// keeper is a driver that can keep boot data, and whose classes ask for it or not.
type keeper struct {
	cloud.Driver
	private bool
}

func (d keeper) PrivateBootData(cloud.Class) (string, bool) { return "providerSpec.private", d.private }

func TestRemoveBootData(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	account := &booting{}
	env.wrap(func(a cloud.Account) cloud.Account { account.Account = a; return account })
	o := env.object
	now := time.Time{}
	if _, err := env.engine.RemoveBootData(t.Context(), o.machine(), now); err != nil || account.calls > 0 {
		t.Errorf("got %v after %d calls for a VM without boot data in the cloud, want none", err, account.calls)
	}
	o.bootData, o.bootDataErr = true, errRefused
	if _, err := env.engine.RemoveBootData(t.Context(), o.machine(), now); !errors.Is(err, errRefused) || !o.bootData {
		t.Errorf("got %v, kept %v, want the error of the record", err, o.bootData)
	}
	o.bootDataErr = nil
	if _, err := env.engine.RemoveBootData(t.Context(), o.machine(), now); err != nil || o.bootData || account.calls != 2 {
		t.Errorf("got %v, kept %v after %d calls, want that it is removed again and recorded", err, o.bootData, account.calls)
	}
}

// TestBootDataFailuresInARow: a blip is worth no write, and a refusal is.
func TestBootDataFailuresInARow(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	account := &booting{}
	env.wrap(func(a cloud.Account) cloud.Account { account.Account = a; return account })
	o := env.object
	o.bootData = true
	away := cloud.Errorf(cloud.Unavailable, "remove", "Away", "away")
	budget := cloud.Errorf(cloud.Throttled, "remove", cloud.ReasonRateBudget, "wait")
	for i, tc := range []struct {
		err   error
		shown bool
	}{{away, false}, {budget, false}, {away, true}, {cloud.Errorf(cloud.Denied, "remove", "No", "no"), true}} {
		account.err = tc.err
		u, err := env.engine.RemoveBootData(t.Context(), o.machine(), time.Time{})
		if shown := u.Reason != ""; err != nil || shown != tc.shown || u.RetryAfter <= 0 {
			t.Errorf("failure %d: got %+v, %v, want shown %v, and another try", i, u, err, tc.shown)
		}
		if !o.bootData {
			t.Errorf("failure %d: the record is gone", i)
		}
	}
}

func TestPlainBootDataWithKeys(t *testing.T) {
	t.Parallel()
	const key = "#!/bin/sh\n# -----BEGIN PRIVATE KEY-----"
	for name, tc := range map[string]struct {
		reason                string
		controlPlane, private bool
		allow, data           string
		refused               bool
	}{
		"Keys":    {"Whoever may describe VMs could read them.", true, false, "", key, true},
		"No":      {"Only true is a yes.", true, false, "yes", key, true},
		"Allowed": {"The user has accepted it.", true, false, "true", key, false},
		"Private": {"The class keeps them private.", true, true, "", key, false},
		"Worker":  {"Its keys are its own.", false, false, "", key, false},
		"NoKeys":  {"There is nothing to protect.", true, false, "", "#!/bin/sh", false},
	} {
		env := newLifeEnv(t)
		env.useClass(func(c *machinev1.MachineClass) {
			c.Annotations = map[string]string{machinev1.AllowPlainBootDataAnnotation: tc.allow}
		})
		env.object.class.Driver = keeper{env.object.class.Driver, tc.private}
		o := env.object
		o.controlPlane = tc.controlPlane
		err := checkBootData(o.machine(), []byte(tc.data))
		if (err != nil) != tc.refused || err != nil && (cloud.CodeOf(err) != cloud.Invalid ||
			!strings.Contains(err.Error(), "providerSpec.private") || strings.Contains(err.Error(), key)) {
			t.Errorf("%s: got %v, want refused %v: %s", name, err, tc.refused, tc.reason)
		}
		if keepsBootData(env.object.class) != tc.private {
			t.Errorf("%s: the cloud keeps boot data: %v, want %v", name, !tc.private, tc.private)
		}
	}
}

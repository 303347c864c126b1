package vm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// tagging is an account that notes which keys are obsolete.
type tagging struct {
	cloud.Account
	err      error
	obsolete [][]string
}

func (a *tagging) SetTags(_ context.Context, _ cloud.Ref, obsolete []string) error {
	a.obsolete = append(a.obsolete, obsolete)
	return a.err
}

// userTags is a driver whose classes have these tags.
type userTags struct {
	cloud.Driver
	tags map[string]string
}

func (d userTags) UserTags(cloud.Class) map[string]string { return d.tags }

func TestUpdateTags(t *testing.T) {
	t.Parallel()
	is := recordOf(map[string]string{"a": "1", "b": "2"})
	old := recordOf(map[string]string{"b": "1", "c": "3"})
	unknown := tagRecord{Keys: []string{"a", "b", "c"}}
	unavailable := cloud.Errorf(cloud.Unavailable, "tag", "Away", "away")
	gone := cloud.Errorf(cloud.NotFound, "tag", "Gone", "gone")
	known := tagRecord{Keys: is.Keys}
	calls := [][]string{{"c"}}
	cases := map[string]struct {
		reason   string
		follow   string
		record   string
		err      error // of the cloud
		fails    int   // record that cannot be written
		records  []tagRecord
		obsolete [][]string // of each call
		wantErr  error
	}{
		"NotAsked":  {"Nobody has asked for it.", "", old.String(), nil, 0, nil, nil, nil},
		"NoBoolean": {"Only true is a yes.", "yes", old.String(), nil, 0, nil, nil, nil},
		"Same":      {"The VM has the tags.", "true", is.String(), nil, 0, nil, nil, nil},
		"Changed": {
			"Keys are recorded, then set.",
			"true", old.String(), nil, 0,
			[]tagRecord{unknown, is},
			calls, nil,
		},
		"None": {
			"Without a record nothing is removed.",
			"true", "", nil, 0,
			[]tagRecord{known, is},
			[][]string{nil},
			nil,
		},
		"Broken": {
			"A record that cannot be read is none.",
			"true", "{", nil, 0,
			[]tagRecord{known, is},
			[][]string{nil},
			nil,
		},
		"Begun": {
			"What was recorded is not recorded again.",
			"true", unknown.String(), nil, 0,
			[]tagRecord{is},
			calls, nil,
		},
		"Failed": {
			"After a failure the keys stay recorded.",
			"true", old.String(), unavailable, 0,
			[]tagRecord{unknown},
			calls, nil,
		},
		"Gone": {
			"A VM that is not there needs no tags.",
			"true", old.String(), gone, 0,
			[]tagRecord{unknown},
			calls, nil,
		},
		"NotRecorded": {
			"Without a record nothing is set.",
			"true", old.String(), nil, 1,
			[]tagRecord{unknown},
			nil, errRefused,
		},
		"NotConfirmed": {
			"The next pass sets the tags again.",
			"true", old.String(), nil, 2,
			[]tagRecord{unknown, is},
			calls, errRefused,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			env.useClass(func(c *machinev1.MachineClass) {
				c.Annotations = map[string]string{machinev1.UpdateTagsAnnotation: tc.follow}
			})
			env.object.class.Driver = userTags{env.object.class.Driver, map[string]string{"a": "1", "b": "2"}}
			account := &tagging{err: tc.err}
			env.wrap(func(a cloud.Account) cloud.Account { account.Account = a; return account })
			o := env.object
			o.applied, o.fails = tc.record, tc.fails
			u, err := env.engine.UpdateTags(t.Context(), o.machine(), time.Time{})
			done := err == nil && cloud.CodeOf(tc.err) != cloud.Unavailable
			if !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) || u.None != done {
				t.Errorf("%s\ngot %+v, error %v, want error %v", tc.reason, u, err, tc.wantErr)
			}
			var want []string
			for _, r := range tc.records {
				want = append(want, r.String())
			}
			if diff := cmp.Diff(want, o.records); diff != "" {
				t.Errorf("%s records\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.obsolete, account.obsolete); diff != "" {
				t.Errorf("%s obsolete keys\n%s", tc.reason, diff)
			}
		})
	}
}

// TestInvalidClassesChangeNoTags: what is not understood of a class may be a tag, which
// would be removed.
func TestInvalidClassesChangeNoTags(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.useClass(func(c *machinev1.MachineClass) {
		c.Annotations = map[string]string{machinev1.UpdateTagsAnnotation: "true"}
		c.NodeTemplate = &machinev1.NodeTemplate{}
	})
	o := env.object
	u, err := env.engine.UpdateTags(t.Context(), o.machine(), time.Time{})
	if err != nil || u.Reason != machinev1.ReasonInvalidSpec || len(o.records) > 0 {
		t.Errorf("got %+v, %v, records %v", u, err, o.records)
	}
}

// TestInvalidClassesWithTheSameTags: what is wrong with them is no failure of the tags.
func TestInvalidClassesWithTheSameTags(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.useClass(func(c *machinev1.MachineClass) {
		c.Annotations = map[string]string{machinev1.UpdateTagsAnnotation: "true"}
		c.NodeTemplate = &machinev1.NodeTemplate{}
	})
	tags := map[string]string{"a": "1"}
	env.object.class.Driver = userTags{env.object.class.Driver, tags}
	o := env.object
	o.applied = recordOf(tags).String()
	if u, err := env.engine.UpdateTags(t.Context(), o.machine(), time.Time{}); err != nil || !u.None {
		t.Errorf("got %+v, %v, want nothing for a VM that has its tags", u, err)
	}
}

// TestTagFailuresInARow: those count that follow each other; waits for the rate are none.
func TestTagFailuresInARow(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.useClass(func(c *machinev1.MachineClass) {
		c.Annotations = map[string]string{machinev1.UpdateTagsAnnotation: "true"}
	})
	env.object.class.Driver = userTags{env.object.class.Driver, map[string]string{"a": "1"}}
	account := &tagging{}
	env.wrap(func(a cloud.Account) cloud.Account { account.Account = a; return account })
	o := env.object
	away := cloud.Errorf(cloud.Unavailable, "tag", "Away", "away")
	budget := cloud.Errorf(cloud.Throttled, "tag", cloud.ReasonRateBudget, "wait")
	for i, tc := range []struct {
		err   error
		shown bool
	}{{budget, false}, {away, false}, {budget, false}, {away, true}, {nil, false}, {away, false}} {
		account.err, o.applied = tc.err, ""
		u, err := env.engine.UpdateTags(t.Context(), o.machine(), time.Time{})
		if shown := u.Reason != ""; err != nil || shown != tc.shown {
			t.Errorf("call %d: got %+v, %v, want shown: %v", i, u, err, tc.shown)
		}
	}
}

func TestRecordForCreate(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.useClass(func(c *machinev1.MachineClass) {
		c.Annotations = map[string]string{machinev1.UpdateTagsAnnotation: "true"}
	})
	r := env.object.class
	r.Driver = userTags{r.Driver, map[string]string{"a": "1"}}
	is, old := recordOf(map[string]string{"a": "1"}), recordOf(map[string]string{"b": "1"})
	both := tagRecord{Keys: []string{"a", "b"}}
	for reason, tc := range map[string]struct {
		last  string
		first bool
		want  string
	}{
		"The VM is created with the tags of the class.": {"", true, is.String()},
		"A record is there although none was sent.":     {old.String(), true, both.String()},
		"An earlier request with these tags, again.":    {is.String(), false, is.String()},
		"An earlier request may have made the VM.":      {old.String(), false, both.String()},
		"One that nothing is known about, too.":         {"", false, is.with(tagRecord{}).String()},
	} {
		if got := recordForCreate(r, tc.last, tc.first); got != tc.want {
			t.Errorf("%s got %s, want %s", reason, got, tc.want)
		}
	}
	delete(r.Object.Annotations, machinev1.UpdateTagsAnnotation)
	for last, want := range map[string]string{"": "", old.String(): both.String()} {
		if got := recordForCreate(r, last, true); got != want {
			t.Errorf("a class that does not ask for it: got %s after %s, want %s", got, last, want)
		}
	}
}

// TestFailuresAreShownAndRetried: of whatever belongs to a VM, as outcome says, with what lasts shown.
func TestFailuresAreShownAndRetried(t *testing.T) {
	t.Parallel()
	of := func(code cloud.Code, reason string, after time.Duration) error {
		return &cloud.Error{Code: code, Op: "tag", Reason: reason, RetryAfter: after, Err: errRefused}
	}
	cases := map[string]struct {
		err     error
		failing time.Duration
		wait    time.Duration
		shown   string // reason; empty if nothing is shown
	}{
		"Budget":      {of(cloud.Throttled, cloud.ReasonRateBudget, 7*time.Second), 0, 7 * time.Second, ""},
		"Throttled":   {of(cloud.Throttled, "Slow", 9*time.Second), 0, 9 * time.Second, machinev1.ReasonCloudThrottled},
		"First":       {of(cloud.Unavailable, "Away", 0), 0, 5 * time.Second, machinev1.ReasonCloudUnavailable},
		"Later":       {of(cloud.Unavailable, "Away", 0), 4 * time.Minute, time.Minute, machinev1.ReasonCloudUnavailable},
		"Unsupported": {of(cloud.Invalid, cloud.ReasonTagsUnsupported, 0), 0, 0, cloud.ReasonTagsUnsupported},
		"Refused":     {of(cloud.Invalid, "TagLimitExceeded", 0), 0, 10 * time.Minute, machinev1.ReasonInvalidSpec},
	}
	for name, tc := range cases {
		env := newLifeEnv(t)
		env.useClass(func(c *machinev1.MachineClass) {
			c.Annotations = map[string]string{machinev1.UpdateTagsAnnotation: "true"}
		})
		env.object.class.Driver = userTags{env.object.class.Driver, map[string]string{"a": "1"}}
		env.wrap(func(a cloud.Account) cloud.Account { return &tagging{Account: a, err: tc.err} })
		o := env.object
		blip := cloud.CodeOf(tc.err) == cloud.Throttled || cloud.CodeOf(tc.err) == cloud.Unavailable
		for n := range 2 {
			u, err := env.engine.UpdateTags(t.Context(), o.machine(), env.Clock.Now().Add(-tc.failing))
			want := tc.shown
			if blip && n == 0 {
				want = ""
			}
			if err != nil || u.RetryAfter != tc.wait || u.Reason != want || (want != "") != (u.Message != "") {
				t.Errorf("%s, failure %d: got %+v, %v, want after %v and %q", name, n+1, u, err, tc.wait, want)
			}
		}
	}
}

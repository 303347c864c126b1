package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	full := cloud.Errorf(cloud.Exhausted, "run", "Full", "no capacity: %w", context.DeadlineExceeded)
	cases := map[string]struct {
		reason string
		err    error
		want   cloud.Code
	}{
		"Nil":     {"no error has no code", nil, cloud.Unknown},
		"Foreign": {"an error of somebody else is not classified", errors.New("x"), cloud.Unknown},
		"Own":     {"an error has its code", full, cloud.Exhausted},
		"Wrapped": {"also when it is wrapped", fmt.Errorf("ensure: %w", full), cloud.Exhausted},
		"Joined":  {"and when it is joined", errors.Join(errors.New("x"), full), cloud.Exhausted},
		"First":   {"the outermost counts", cloud.Errorf(cloud.Denied, "ensure", "Denied", "%w", full), cloud.Denied},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := cloud.CodeOf(c.err); got != c.want {
				t.Errorf("got %v, want %v; reason: %s", got, c.want, c.reason)
			}
		})
	}
	if full.Error() != "run: no capacity: context deadline exceeded" || !errors.Is(full, context.DeadlineExceeded) {
		t.Errorf("got %q, want operation and cause, with the chain kept", full)
	}
}

func TestCodesHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := cloud.Unknown; c <= cloud.TokenUsed; c++ {
		if name := c.String(); seen[name] || name == "" || name == "Code" {
			t.Errorf("code %d has the name %q, want one of its own: it is a label of metrics", c, name)
		}
		seen[c.String()] = true
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	problems := []cloud.Problem{
		{Severity: cloud.Warning, Field: "a", Message: "is unknown"},
		{Severity: cloud.BlocksCreate, Field: "b", Message: "is missing"},
		{Severity: cloud.BlocksAll, Field: "c", Message: "is wrong"},
	}
	cases := map[string]struct {
		reason string
		least  cloud.Severity
		want   string
		n      int
	}{
		"Create": {"creation minds what rules it out", cloud.BlocksCreate, "check: b: is missing; c: is wrong", 2},
		"All":    {"deletion minds only what rules out everything", cloud.BlocksAll, "check: c: is wrong", 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, ok := errors.AsType[*cloud.Error](cloud.Worst("check", problems, c.least))
			if !ok || e.Code != cloud.Invalid || e.Error() != c.want || len(e.Problems) != c.n {
				t.Errorf("got %+v, want Invalid, %q; reason: %s", e, c.want, c.reason)
			}
		})
	}
	if err := cloud.Worst("check", problems[:1], cloud.BlocksCreate); err != nil {
		t.Errorf("got %v, want nil: a warning rules nothing out", err)
	}
}

func TestOfferingString(t *testing.T) {
	t.Parallel()
	got := []string{
		cloud.Offering{Region: "r", Zone: "z", InstanceType: "t"}.String(),
		cloud.Offering{Region: "r", InstanceType: "t"}.String(),
		cloud.Offering{Zone: "z"}.String(),
	}
	if diff := cmp.Diff([]string{"t in z", "t in r", "in z"}, got); diff != "" {
		t.Errorf("-want +got: %s", diff)
	}
}

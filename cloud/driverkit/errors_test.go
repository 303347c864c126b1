package driverkit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

func TestWithOpCopies(t *testing.T) {
	t.Parallel()
	shared := cloud.Errorf(cloud.Throttled, "theirs", "Slow", "slow down")
	mine := driverkit.WithOp("mine", shared)
	if mine.Error() != "mine: slow down" || shared.Op != "theirs" || cloud.CodeOf(mine) != cloud.Throttled {
		t.Errorf("got %v, and the shared error has the operation %q", mine, shared.Op)
	}
	if driverkit.WithOp("mine", nil) != nil {
		t.Error("nil does not stay nil")
	}
	got := driverkit.WithOp("mine", errors.New("odd"))
	if cloud.CodeOf(got) != cloud.Unknown || got.Error() != "mine: odd" {
		t.Errorf("another error: got %v", got)
	}
}

func TestRestrict(t *testing.T) {
	t.Parallel()
	for code, want := range map[cloud.Code]cloud.Code{
		cloud.Denied: cloud.Denied, cloud.Throttled: cloud.Throttled, cloud.Unavailable: cloud.Unavailable,
		cloud.NotFound: cloud.NotFound, cloud.Invalid: cloud.Unknown, cloud.Exhausted: cloud.Unknown,
		cloud.TokenUsed: cloud.Unknown,
	} {
		e := cloud.Errorf(code, "op", "R", "text")
		e.Problems, e.Offering = []cloud.Problem{{}}, &cloud.Offering{}
		got, _ := errors.AsType[*cloud.Error](driverkit.Restrict(e, cloud.NotFound))
		if got.Code != want || want == cloud.Unknown && (got.Problems != nil || got.Offering != nil) {
			t.Errorf("%v: got %+v", code, got)
		}
		if e.Code != code || e.Problems == nil || e.Offering == nil {
			t.Errorf("%v: the shared error is changed to %+v", code, e)
		}
	}
	if driverkit.Restrict(nil) != nil {
		t.Error("nil does not stay nil")
	}
}

func TestWithFieldCopies(t *testing.T) {
	t.Parallel()
	shared := cloud.Errorf(cloud.Invalid, "op", "R", "there is none.")
	mine := driverkit.WithField(shared, "image", "name one")
	if len(mine.Problems) != 1 || mine.Problems[0].String() != "providerSpec.image: there is none; name one" {
		t.Errorf("got %v, want a problem with the field", mine.Problems)
	}
	if shared.Problems != nil {
		t.Errorf("the shared error is changed to %+v", shared)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	broken := fmt.Errorf("post https://user:secret@cloud: %w", errors.New("connection reset"))
	e := driverkit.NoAnswer(t.Context(), "op", broken)
	if e.Code != cloud.Unavailable || strings.Contains(e.Error(), "secret") || !driverkit.Uncertain(e) {
		t.Errorf("got %v, want it short, and uncertain", e)
	}
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	if driverkit.Uncertain(driverkit.NoAnswer(t.Context(), "op", dial)) {
		t.Error("without a connection the cloud did not get the request")
	}
	ended, cancel := context.WithCancel(t.Context())
	if driverkit.NotSent(ended, "op") != nil {
		t.Error("the context has not ended")
	}
	cancel()
	if e := driverkit.NoAnswer(ended, "op", broken); !errors.Is(e, context.Canceled) || !driverkit.Uncertain(e) {
		t.Errorf("got %v, want the context's error, and uncertain", e)
	}
	if e := driverkit.NotSent(ended, "op"); !errors.Is(e, context.Canceled) || driverkit.Uncertain(e) {
		t.Errorf("got %v, want the context's error, and certain", e)
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	if got := driverkit.Brief(" a\n\tb "); got != "a b" {
		t.Errorf("got %q, want one line", got)
	}
	if got := driverkit.Brief(strings.Repeat("ä", 1000)); len(got) > 600 || !strings.HasSuffix(got, "ä …") {
		t.Errorf("got %q, want it cut between two characters", got)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code         cloud.Code
		reason, want string
	}{
		{cloud.Unavailable, "Locked", cloud.ReasonVMBusy},
		{cloud.Unavailable, "NoAnswer", "NoAnswer"},
		{cloud.Denied, "Locked", "Locked"},
	} {
		e := cloud.Errorf(tc.code, "reboot", tc.reason, "text")
		got, _ := errors.AsType[*cloud.Error](driverkit.Busy(e, "Locked"))
		if got.Reason != tc.want || got.Code != tc.code || e.Reason != tc.reason {
			t.Errorf("%v: got %+v", tc, got)
		}
	}
	if driverkit.Busy(nil, "Locked") != nil {
		t.Error("nil does not stay nil")
	}
}

package outcome

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func cloudError(code cloud.Code, after time.Duration) error {
	return fmt.Errorf("wrapped: %w", &cloud.Error{Code: code, Op: "op", RetryAfter: after, Err: errors.New("cause")})
}

func TestOf(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	cases := map[string]struct {
		reason string
		wait   time.Duration
		err    error
		after  time.Duration
		fails  bool
	}{
		"Nothing": {"Without a wait only a change wakes.", 0, nil, 0, false},
		"Wait":    {"A wait is a wait.", time.Minute, nil, time.Minute, false},
		"Conflict": {
			"A stale cache is no failure.", 0, apierrors.NewConflict(schema.GroupResource{}, "m", boom),
			conflictRetry, false,
		},
		"Unknown": {"What is not known backs off in the queue.", 0, boom, 0, true},
		"Unavailable": {
			"A cloud that fails without a hint backs off in the queue.", 0, cloudError(cloud.Unavailable, 0), 0,
			true,
		},
		"Throttled": {
			"The budget spreads its callers; nobody bundles them again.", 0,
			cloudError(cloud.Throttled, 3*time.Second), 3 * time.Second, false,
		},
		"NoHint": {
			"A cloud that throttles without a hint gets half a minute.", 0, cloudError(cloud.Throttled, 0),
			throttledRetry, false,
		},
		"Denied": {
			"Refused credentials are tried slowly, or the account is locked out.", 0, cloudError(cloud.Denied, 0),
			deniedRetry, false,
		},
		"Exhausted": {
			"Capacity does not come back within seconds.", 0, cloudError(cloud.Exhausted, 0), invalidRetry,
			false,
		},
		"Invalid": {"A change of the class comes sooner.", 0, cloudError(cloud.Invalid, 0), invalidRetry, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Of(tc.wait, tc.err)
			if got.RequeueAfter != tc.after || (err != nil) != tc.fails {
				t.Errorf("Of() = %s, %v; want %s, failure %v: %s", got.RequeueAfter, err, tc.after, tc.fails, tc.reason)
			}
		})
	}
}

func TestEveryCodeHasAReasonAndAnMCMCode(t *testing.T) {
	t.Parallel()
	want := map[cloud.Code]string{
		cloud.NotFound: "NotFound", cloud.Invalid: "InvalidArgument", cloud.Denied: "PermissionDenied",
		cloud.Exhausted: "ResourceExhausted",
		cloud.Throttled: "Unavailable", cloud.Unavailable: "Unavailable", cloud.TokenUsed: "Aborted",
		cloud.Unknown: "Internal",
	}
	for code, mcm := range want {
		if got := MCMCode(cloudError(code, 0)); got != mcm {
			t.Errorf("MCMCode(%s) = %s, want %s: autoscalers and people read MCM's codes", code, got, mcm)
		}
		if Reason(cloudError(code, 0)) == "" {
			t.Errorf("code %s has no condition reason", code)
		}
	}
}

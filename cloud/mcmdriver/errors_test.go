package mcmdriver

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	text := func(code, message string) error {
		return fmt.Errorf("machine codes error: code = [%s] message = [%s]", code, message)
	}
	zone := cloud.Class{Region: "r", Zone: "z", InstanceType: "small"}
	cases := map[string]struct {
		reason         string
		err            error
		create, others cloud.Code
		said           string
	}{
		"Plain":     {"an error without a code is tried again", errors.New("boom"), cloud.Unknown, cloud.Unknown, "op: boom"},
		"Exhausted": {"the autoscaler hears", text("ResourceExhausted", "full"), cloud.Exhausted, cloud.Unknown, "op: full"},
		"Invalid":   {"the class is wrong", text("InvalidArgument", "no type"), cloud.Invalid, cloud.Unknown, "op: no type"},
		"NotFound":  {"an image may still come", text("NotFound", "no image"), cloud.Unknown, cloud.Unknown, "op: no image"},
		"Denied":    {"both codes of MCM's", text("Unauthenticated", "no"), cloud.Denied, cloud.Denied, "op: no"},
		"Nested": {
			"brackets do not hide the code", text("Unavailable", "a [b] c]"), cloud.Unavailable, cloud.Unavailable,
			"op: a [b] c]",
		},
		"Wrapped": {
			"text around does not hide it either", fmt.Errorf("[gce] call: %w", text("PermissionDenied", "no")), cloud.Denied,
			cloud.Denied, "op: no",
		},
		"Unheard":  {"a code that is not MCM's", text("Nope", "x"), cloud.Unknown, cloud.Unknown, "op: x"},
		"Canceled": {"the caller gave up", context.Canceled, cloud.Unavailable, cloud.Unavailable, "op: context canceled"},
	}
	for name, tc := range cases {
		create, others := failedCreate("op", zone, tc.err), failed("op", tc.err)
		if cloud.CodeOf(create) != tc.create || cloud.CodeOf(others) != tc.others || create.Error() != tc.said ||
			!errors.Is(create, tc.err) {
			t.Errorf("%s: %s: got %v %q and %v", name, tc.reason, cloud.CodeOf(create), create, cloud.CodeOf(others))
		}
		e, _ := errors.AsType[*cloud.Error](create)
		if (e.Offering != nil) != (tc.create == cloud.Exhausted) {
			t.Errorf("%s: offering %v", name, e.Offering)
		}
	}
	if failed("op", nil) != nil || failedCreate("op", zone, nil) != nil {
		t.Error("no error becomes one")
	}
}

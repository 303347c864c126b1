package aws_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// TestTargets: what Elastic Load Balancing refuses, and what an instance is waited for.
func TestTargets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		group   string
		prepare func(w *env, id string)
		done    bool
		code    cloud.Code
		waits   string
	}{
		"Running": {"It joins.", ec2test.GroupIngress, func(*env, string) {}, true, 0, ""},
		"Stopped": {
			"It may be started again.", ec2test.GroupIngress, func(w *env, id string) {
				w.cloud.Edit(id, func(r *ec2test.Resource) { r.Stopped = true })
			}, false, 0, "stopped",
		},
		"OtherVPC": {"The class is wrong.", ec2test.GroupElsewhere, func(*env, string) {}, false, cloud.Invalid, ""},
		"NoGroup": {
			"The class is wrong.", strings.Replace(ec2test.GroupIngress, "ingress", "none", 1), func(*env, string) {}, false,
			cloud.Invalid, "",
		},
		"Full": {
			"There is no room.", ec2test.GroupIngress, func(w *env, _ string) {
				w.cloud.Inject(ec2test.Fault{Action: "RegisterTargets", Code: "TooManyTargets", Message: "no"})
			}, false, cloud.Exhausted, "",
		},
		"Throttled": {
			"It is asked again.", ec2test.GroupIngress, func(w *env, _ string) {
				w.cloud.Inject(ec2test.Fault{Action: "RegisterTargets", Code: "Throttling", Message: "Rate exceeded"})
			}, false, cloud.Throttled, "",
		},
		"Denied": {
			"Permissions are missing.", ec2test.GroupIngress, func(w *env, _ string) {
				w.cloud.Inject(ec2test.Fault{Action: "RegisterTargets", Code: "AccessDenied", Message: "no", Status: 403})
			}, false, cloud.Denied, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			a, c := w.open(class("c", nil), credentials())
			r := w.request(c, 1)
			vm, err := a.Create(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			r.ProviderID = vm.ProviderID
			w.now.Advance(time.Minute)
			tc.prepare(w, vm.ID)
			got, err := cloud.Register(t.Context(), a, r.Ref, []string{tc.group + ":443"})
			if got.Done != tc.done || (err != nil) != (tc.code != 0) || err != nil && cloud.CodeOf(err) != tc.code ||
				!strings.Contains(strings.Join(got.Waiting, ""), tc.waits) {
				t.Errorf("%s\ngot %+v, %v", tc.reason, got, err)
			}
		})
	}
}

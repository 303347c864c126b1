package aws_test

import (
	"errors"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// TestConsoleOfXen: EC2 has the latest console only of instances on Nitro. Of others it is read as EC2 has
// posted it, and that is nothing in the first minutes.
func TestConsoleOfXen(t *testing.T) {
	t.Parallel()
	for machineType, want := range map[string][2]string{
		"m5.large": {"early\n", "early\nlate\n"}, "p3.2xlarge": {"", "early\n"},
	} {
		w := newEnv(t)
		a, c := w.open(class("c", spec{"machineType": machineType}), credentials())
		r := w.request(c, 1)
		vm, err := a.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		r.ProviderID = vm.ProviderID
		w.cloud.Print(vm.ID, "early\n")
		first, err1 := cloud.Console(t.Context(), a, r.Ref)
		w.now.Advance(10 * time.Minute)
		w.cloud.Print(vm.ID, "late\n")
		second, err2 := cloud.Console(t.Context(), a, r.Ref)
		if first != want[0] || second != want[1] || err1 != nil || err2 != nil {
			t.Errorf("%s: got %q, then %q, %v, want %q", machineType, first, second, errors.Join(err1, err2), want)
		}
		w.cloud.Inject(ec2test.Fault{Action: "GetConsoleOutput", Code: "UnauthorizedOperation", Message: "no"})
		if _, err := cloud.Console(t.Context(), a, r.Ref); cloud.CodeOf(err) != cloud.Denied {
			t.Errorf("%s: got %v, want Denied", machineType, err)
		}
	}
}

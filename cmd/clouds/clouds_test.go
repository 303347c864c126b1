package clouds

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestOfflineKnowsEveryCloud: a driver that is on one list only could not be validated.
func TestOfflineKnowsEveryCloud(t *testing.T) {
	t.Parallel()
	traits := func(drivers []cloud.Driver) []cloud.Traits {
		var found []cloud.Traits
		for _, d := range drivers {
			found = append(found, d.Traits())
		}
		return found
	}
	if diff := cmp.Diff(traits(Drivers(Options{})), traits(Offline(Options{}))); diff != "" {
		t.Errorf("-with accounts +offline:\n%s", diff)
	}
	for _, d := range Offline(Options{}) {
		if _, err := d.Open(t.Context(), cloud.Class{}, nil); cloud.CodeOf(err) != cloud.Invalid {
			t.Errorf("%s opens an account: %v", d.Traits().Name, err)
		}
	}
}

// TestDriversFitTogether: names that differ only by case are one name, and a manager with two drivers of
// one name does not start.
func TestDriversFitTogether(t *testing.T) {
	t.Parallel()
	for _, drivers := range [][]cloud.Driver{Drivers(Options{}), Offline(Options{})} {
		if _, err := cloud.NewRegistry(drivers, time.Now); err != nil {
			t.Error(err)
		}
	}
}

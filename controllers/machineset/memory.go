package machineset

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// memory is what this process knows of one MachineSet beyond the caches. A restart
// loses it without harm: machines are counted on the API server before one is
// created.
type memory struct {
	uid types.UID
	// machines are the writes to Machines that the cache does not show yet.
	machines fresh.Writes[*machinev1.Machine]
	// batch is the last reservation of this process.
	batch batch
	// deletes are the requests of this process to delete Machines that got no answer, by UID.
	deletes map[types.UID]unanswered
	// unfrozenUntil is until when a set that a person has unfrozen is not frozen again.
	unfrozenUntil time.Time
	// reportedProblems is the message of the last Event about the spec.
	reportedProblems string
	// holdReported is true if an Event has said that the set waits for a held Machine.
	holdReported bool
	// kept is since when surplus machines are kept; zero if none are.
	kept keeping
}

// unanswered is a request to delete a Machine that may still take effect, as long as the Machine has the
// resource version that the request names.
type unanswered struct {
	at              time.Time
	resourceVersion string
}

// keeping is since when surplus machines are kept, and at which size of the set.
type keeping struct {
	since time.Time
	size  int32
}

// batch is a reservation that this process made or took over.
type batch struct {
	record naming.Ordinals
	// done are the ordinals whose Machine has been created once.
	done map[int64]bool
	// inherited is true if a former leader made the reservation, or one that is still
	// open beside it.
	inherited bool
	// unanswered is when a create request of this process got no answer; zero if each did.
	unanswered time.Time
}

// follow returns the batch for a record that the API server has. Where that is
// another one than this process wrote last, a former leader may have written it,
// or our write of the next one got lost: our requests may be in flight all the same.
func (b batch) follow(record naming.Ordinals) batch {
	if b.done == nil {
		b.done = map[int64]bool{}
	}
	b.inherited = b.inherited || b.record != record
	b.record = record
	return b
}

// memoryOf returns the memory of a set; it is new for another set of the same name.
func (c *Controller) memoryOf(set *machinev1.MachineSet) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	if m := c.memories[key]; m != nil && m.uid == set.UID {
		return m
	}
	m := &memory{uid: set.UID}
	c.memories[key] = m
	return m
}

// forget drops the memory of a set that no longer exists.
func (c *Controller) forget(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memories, key)
}

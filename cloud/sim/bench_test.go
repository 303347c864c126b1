package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// BenchmarkVM is the cost of a VM's life, by the driver in process, in a cloud
// that has many already.
func BenchmarkVM(b *testing.B) {
	now := newClock()
	c := sim.New(sim.Options{Clock: now, Settings: sim.DefaultSettings()})
	d := c.Driver()
	parsed, _ := d.Parse(class("c", nil))
	a, err := d.Open(b.Context(), parsed, credentials())
	if err != nil {
		b.Fatal(err)
	}
	ref := func(i int) cloud.Ref {
		return cloud.Ref{Name: fmt.Sprint("vm-", i), OwnerID: fmt.Sprint(i), Class: parsed}
	}
	life := func(i int) {
		if _, err := a.Create(b.Context(), cloud.CreateRequest{Ref: ref(i), Token: fmt.Sprint(i)}); err != nil {
			b.Fatal(err)
		}
	}
	const many = 10000
	for i := range many {
		life(i)
	}
	now.Advance(time.Second)
	b.Run("Life", func(b *testing.B) {
		for i := many; b.Loop(); i++ {
			life(i)
			if d, err := a.Delete(b.Context(), ref(i)); err != nil || !d.Done {
				b.Fatal(d, err)
			}
		}
	})
	b.Run("ListAll", func(b *testing.B) {
		for b.Loop() {
			for _, err := range a.List(b.Context(), parsed) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

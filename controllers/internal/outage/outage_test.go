package outage_test

import (
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outage"
)

func TestAround(t *testing.T) {
	t.Parallel()
	begin := time.Unix(100000, 0)
	loss := func(zone, pool, sign string, after time.Duration) outage.Loss {
		return outage.Loss{Zone: zone, Pool: pool, Signs: map[string]time.Time{sign: begin.Add(after)}}
	}
	const ready, disk = "Ready", "DiskPressure"
	here := outage.Place{Zone: "a", Pool: "p"}
	cases := map[string]struct {
		reason string
		place  outage.Place
		losses []outage.Loss
		want   outage.Scope
	}{
		"Nothing": {"Without losses all is well.", here, nil, outage.None},
		"Lone": {
			"One loss is none together with others.", here,
			[]outage.Loss{loss("a", "p", ready, 0)},
			outage.None,
		},
		"Zone": {
			"Two of a zone, in whatever pools, are an outage.", here,
			[]outage.Loss{loss("a", "p", ready, 0), loss("a", "q", ready, time.Minute)},
			outage.Zone,
		},
		"Pool": {
			"Two of a pool, in whatever zones, are one too.", here,
			[]outage.Loss{loss("a", "p", ready, 0), loss("b", "p", ready, time.Minute)},
			outage.Pool,
		},
		"ZoneFirst": {
			"The zone says more than the pool.", here,
			[]outage.Loss{loss("a", "p", ready, 0), loss("a", "p", ready, 0)},
			outage.Zone,
		},
		"NoZones": {
			"Without zones pools are left.",
			outage.Place{Pool: "p"},
			[]outage.Loss{loss("", "p", ready, 0), loss("", "p", ready, 0)},
			outage.Pool,
		},
		"NoZoneNoPool": {
			"What is unknown is nothing in common.",
			outage.Place{},
			[]outage.Loss{loss("", "", ready, 0), loss("", "", ready, 0)},
			outage.None,
		},
		"Elsewhere": {
			"The outage of another zone is none here.", here,
			[]outage.Loss{loss("b", "q", ready, 0), loss("b", "q", ready, 0)},
			outage.None,
		},
		"InTheMiddle": {
			"A machine does not need to be one of those that belong together.", here,
			[]outage.Loss{loss("a", "p", disk, 0), loss("a", "q", ready, 0), loss("a", "q", ready, 0)},
			outage.Zone,
		},
		"OtherSign": {
			"What shows differently has different causes.", here,
			[]outage.Loss{loss("a", "p", ready, 0), loss("a", "p", disk, 0)},
			outage.None,
		},
		"Window": {"Five minutes are close enough.", here, []outage.Loss{
			loss("a", "p", ready, 0),
			loss("a", "p", ready, 5*time.Minute),
		}, outage.Zone},
		"TooFar": {"More is not.", here, []outage.Loss{loss("a", "p", ready, 0), loss("a", "p", ready,
			5*time.Minute+time.Second)}, outage.None},
		"Unsorted": {
			"The order of losses does not matter.", here,
			[]outage.Loss{loss("a", "p", ready, time.Hour), loss("a", "p", ready, 0), loss("a", "p", ready, time.Hour)},
			outage.Zone,
		},
		"LongAgo": {
			"An outage ends, even if nothing heals.", here,
			[]outage.Loss{loss("a", "p", ready, -3*time.Hour), loss("a", "p", ready, -3*time.Hour)},
			outage.None,
		},
		"OneLongAgo": {
			"A loss from before the limit is none of this outage.", here,
			[]outage.Loss{loss("a", "p", ready, -2*time.Hour-time.Second), loss("a", "p", ready, -2*time.Hour)},
			outage.None,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, _ := outage.Around(tc.place, tc.losses, outage.Window, begin.Add(-2*time.Hour)); got != tc.want {
				t.Errorf("Around() = %d, want %d: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestShortHealthTimeoutsNarrowTheWindow(t *testing.T) {
	t.Parallel()
	begin := time.Unix(100000, 0)
	losses := []outage.Loss{
		{Pool: "p", Signs: map[string]time.Time{"Ready": begin}},
		{Pool: "p", Signs: map[string]time.Time{"Ready": begin.Add(30 * time.Second)}},
	}
	if got, _ := outage.Around(outage.Place{Pool: "p"}, losses, 10*time.Second, begin); got != outage.None {
		t.Errorf("Around() = %d: the first loss was replaced before the second came", got)
	}
}

func TestAroundCountsTheLargestGroup(t *testing.T) {
	t.Parallel()
	begin := time.Unix(100000, 0)
	var losses []outage.Loss
	for _, after := range []time.Duration{0, time.Minute, 2 * time.Minute, time.Hour, time.Hour + time.Minute} {
		losses = append(losses, outage.Loss{Zone: "a", Signs: map[string]time.Time{"Ready": begin.Add(after)}})
	}
	if scope, n := outage.Around(outage.Place{Zone: "a"}, losses, outage.Window, begin); scope != outage.Zone || n != 3 {
		t.Errorf("Around() = %d, %d, want the three of the first storm", scope, n)
	}
}

func TestDurationsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		2 * time.Hour: "2h", 10 * time.Minute: "10m", 90 * time.Minute: "1h30m", 30 * time.Second: "30s", 0: "0s",
		90 * time.Second: "1m30s",
	} {
		if got := outage.Duration(d); got != want {
			t.Errorf("Duration(%s) = %q, want %q", d, got, want)
		}
	}
}

package brake_test

import (
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

func TestAround(t *testing.T) {
	t.Parallel()
	begin := time.Unix(100000, 0)
	loss := func(zone, pool, sign string, after time.Duration) brake.Loss {
		return brake.Loss{Place: brake.Place{Zone: zone, Pool: pool}, Signs: map[string]time.Time{sign: begin.Add(after)}}
	}
	const ready, disk = "Ready", "DiskPressure"
	const none, zone, pool = "", "in zone a", "of pool p"
	here := brake.Place{Zone: "a", Pool: "p"}
	cases := map[string]struct {
		reason string
		place  brake.Place
		losses []brake.Loss
		want   string
	}{
		"Nothing": {"Without losses all is well.", here, nil, none},
		"Lone": {
			"One loss is none together with others.", here,
			[]brake.Loss{loss("a", "p", ready, 0)},
			none,
		},
		"Zone": {
			"Two of a zone, in whatever pools, are an outage.", here,
			[]brake.Loss{loss("a", "p", ready, 0), loss("a", "q", ready, time.Minute)},
			zone,
		},
		"Pool": {
			"Two of a pool, in whatever zones, are one too.", here,
			[]brake.Loss{loss("a", "p", ready, 0), loss("b", "p", ready, time.Minute)},
			pool,
		},
		"ZoneFirst": {
			"The zone says more than the pool.", here,
			[]brake.Loss{loss("a", "p", ready, 0), loss("a", "p", ready, 0)},
			zone,
		},
		"NoZones": {
			"Without zones pools are left.",
			brake.Place{Pool: "p"},
			[]brake.Loss{loss("", "p", ready, 0), loss("", "p", ready, 0)},
			pool,
		},
		"NoZoneNoPool": {
			"What is unknown is nothing in common.",
			brake.Place{},
			[]brake.Loss{loss("", "", ready, 0), loss("", "", ready, 0)},
			none,
		},
		"Elsewhere": {
			"The outage of another zone is none here.", here,
			[]brake.Loss{loss("b", "q", ready, 0), loss("b", "q", ready, 0)},
			none,
		},
		"InTheMiddle": {
			"A machine does not need to be one of those that belong together.", here,
			[]brake.Loss{loss("a", "p", disk, 0), loss("a", "q", ready, 0), loss("a", "q", ready, 0)},
			zone,
		},
		"OtherSign": {
			"What shows differently has different causes.", here,
			[]brake.Loss{loss("a", "p", ready, 0), loss("a", "p", disk, 0)},
			none,
		},
		"Window": {"Five minutes are close enough.", here, []brake.Loss{
			loss("a", "p", ready, 0),
			loss("a", "p", ready, 5*time.Minute),
		}, zone},
		"TooFar": {"More is not.", here, []brake.Loss{loss("a", "p", ready, 0), loss("a", "p", ready,
			5*time.Minute+time.Second)}, none},
		"Unsorted": {
			"The order of losses does not matter.", here,
			[]brake.Loss{loss("a", "p", ready, time.Hour), loss("a", "p", ready, 0), loss("a", "p", ready, time.Hour)},
			zone,
		},
		"LongAgo": {
			"An outage ends, even if nothing heals.", here,
			[]brake.Loss{loss("a", "p", ready, -3*time.Hour), loss("a", "p", ready, -3*time.Hour)},
			none,
		},
		"OneLongAgo": {
			"A loss from before the limit is none of this outage.", here,
			[]brake.Loss{loss("a", "p", ready, -2*time.Hour-time.Second), loss("a", "p", ready, -2*time.Hour)},
			none,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := brake.Around(tc.place, tc.losses, brake.Window, begin.Add(-2*time.Hour))
			if is := got != (brake.Outage{}); is != (tc.want != none) || is && got.Where() != tc.want {
				t.Errorf("Around() = %+v, want %q: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestShortHealthTimeoutsNarrowTheWindow(t *testing.T) {
	t.Parallel()
	begin := time.Unix(100000, 0)
	losses := []brake.Loss{
		{Place: brake.Place{Pool: "p"}, Signs: map[string]time.Time{"Ready": begin}},
		{Place: brake.Place{Pool: "p"}, Signs: map[string]time.Time{"Ready": begin.Add(30 * time.Second)}},
	}
	if got := brake.Around(brake.Place{Pool: "p"}, losses, 10*time.Second, begin); got != (brake.Outage{}) {
		t.Errorf("Around() = %+v: the first loss was replaced before the second came", got)
	}
}

func TestAroundCountsTheLargestGroup(t *testing.T) {
	t.Parallel()
	begin := time.Unix(100000, 0)
	var losses []brake.Loss
	for _, after := range []time.Duration{0, time.Minute, 2 * time.Minute, time.Hour, time.Hour + time.Minute} {
		signs := map[string]time.Time{"Ready": begin.Add(after)}
		losses = append(losses, brake.Loss{Place: brake.Place{Zone: "a"}, Signs: signs})
	}
	want := brake.Outage{Zone: "a", Nodes: 3}
	if got := brake.Around(brake.Place{Zone: "a"}, losses, brake.Window, begin); got != want {
		t.Errorf("Around() = %+v, want the three of the first storm", got)
	}
}

func TestDurationsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		2 * time.Hour: "2h", 10 * time.Minute: "10m", 90 * time.Minute: "1h30m", 30 * time.Second: "30s", 0: "0s",
		90 * time.Second: "1m30s",
	} {
		if got := brake.Duration(d); got != want {
			t.Errorf("Duration(%s) = %q, want %q", d, got, want)
		}
	}
}

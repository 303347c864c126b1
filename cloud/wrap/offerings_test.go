package wrap_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// market is a cloud that runs out of capacity.
type market struct {
	cloud.Account
	bare *account
	clk  *clock
	err  error
	vm   cloud.VM
}

func newMarket(d wrap.SoldOut, chance func() float64) *market {
	m := &market{clk: newClock()}
	m.bare = &account{create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) { return m.vm, m.err }}
	m.Account = wrap.Offerings(d, wrap.Clock{Now: m.clk.Now, Rand: chance})(info(), m.bare)
	return m
}

// full is the answer of a cloud without capacity.
func full(capacityType string) error {
	return &cloud.Error{
		Code: cloud.Exhausted, Op: "run", Reason: "InsufficientCapacity", Err: errors.New("no capacity"),
		Offering: &cloud.Offering{Region: "r", Zone: "z", InstanceType: "t", CapacityType: capacityType},
	}
}

// asks creates and reports whether the cloud was asked.
func (m *market) asks(t *testing.T, r cloud.CreateRequest) (asked bool, err error) {
	t.Helper()
	before := m.bare.made("create")
	_, err = m.Create(t.Context(), r)
	return m.bare.made("create") > before, err
}

func TestOfferings(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		first  error // of the cloud, to the first request
		change func(r *cloud.CreateRequest)
		pass   time.Duration
		asked  bool
	}{
		"Same":       {"what is sold out is not asked for again", full(""), nil, 0, false},
		"Other zone": {"another zone has its own stock", full(""), func(r *cloud.CreateRequest) { r.Zone = "y" }, 0, true},
		"Other type": {"so has another type", full(""), func(r *cloud.CreateRequest) {
			r.Class.InstanceType = "u"
		}, 0, true},
		"Other region": {"and another region", full(""), func(r *cloud.CreateRequest) { r.Class.Region = "s" }, 0, true},
		"Other class": {"another class asks for the same offering", full(""), func(r *cloud.CreateRequest) {
			r.Class.Name = "d"
		}, 0, false},
		"Spot": {
			"no spot capacity says nothing about a class that may want another kind", full("spot"),
			func(r *cloud.CreateRequest) { r.Class.Name = "d" }, 0, true,
		},
		"Elsewhere": {
			"of a class that names no instance type it is not known where its VMs run", full(""),
			func(r *cloud.CreateRequest) { r.Class.Name = "d" }, 0, true,
		},
		"Spot again": {"the class that asked for spot would be refused again", full("spot"), nil, 0, false},
		"Later":      {"stock changes", full(""), nil, 3 * time.Minute, true},
		"Quota": {
			"without an offering nobody knows what is exhausted",
			cloud.Errorf(cloud.Exhausted, "run", "Quota", "over"), nil, 0, true,
		},
		"Throttled": {"other errors are not remembered", cloud.Errorf(cloud.Throttled, "run", "Slow", "slow"), nil, 0, true},
		"Known VM": {"a VM that is there is always asked for", full(""), func(r *cloud.CreateRequest) {
			r.ProviderID = "fake:///1"
		}, 0, true},
		"Checkpoint": {"so is one that was begun", full(""), func(r *cloud.CreateRequest) { r.State = "nic-1" }, 0, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMarket(0, never)
			m.err = c.first
			first := request("1")
			if name == "Elsewhere" {
				first.Class.InstanceType, first.Class.Zone = "", ""
			}
			if asked, _ := m.asks(t, first); !asked {
				t.Fatal("the first is not asked for")
			}
			m.clk.pass(c.pass)
			r := first
			r.Token = request("2").Token
			if c.change != nil {
				c.change(&r)
			}
			asked, err := m.asks(t, r)
			if asked != c.asked {
				t.Errorf("asked: %v, want %v; reason: %s", asked, c.asked, c.reason)
			}
			if !asked {
				e, _ := errors.AsType[*cloud.Error](err)
				const text = "create VM: no capacity (remembered from a request for t in z"
				if e == nil || e.Code != cloud.Exhausted || e.Reason != "InsufficientCapacity" || e.RetryAfter <= 0 ||
					e.Offering == nil || !strings.HasPrefix(e.Error(), text) {
					t.Errorf("got %+v, want the cloud's reason and text, the offering and a RetryAfter", e)
				}
			}
		})
	}
}

func TestOfferingsForgetAfterSuccess(t *testing.T) {
	t.Parallel()
	m := newMarket(0, never)
	m.err = full("")
	_, _ = m.asks(t, request("1"))
	m.err = nil
	known := request("2")
	known.State = "begun"
	if asked, err := m.asks(t, known); !asked || err != nil {
		t.Fatalf("asked %v, %v", asked, err)
	}
	if asked, _ := m.asks(t, request("3")); !asked {
		t.Error("still refused although a VM was made")
	}
}

func TestOfferingsLetUnfinishedGoOn(t *testing.T) {
	t.Parallel()
	m := newMarket(0, never)
	m.vm = cloud.VM{ID: "1", ProviderID: "fake:///1", RetryAfter: time.Second}
	_, _ = m.asks(t, request("unfinished"))
	m.err = cloud.Errorf(cloud.Unavailable, "run", "Lost", "no answer")
	_, _ = m.asks(t, request("lost"))
	m.err = full("")
	_, _ = m.asks(t, request("other"))
	for _, token := range []string{"unfinished", "lost"} {
		if asked, _ := m.asks(t, request(token)); !asked {
			t.Errorf("%s: not asked, although its VM may be there", token)
		}
	}
	if asked, _ := m.asks(t, request("new")); asked {
		t.Error("new: asked, although nothing is there")
	}
	m.clk.pass(2 * time.Hour)
}

func TestOfferingsJitter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		chance float64
		pass   time.Duration
		asked  bool
	}{{0, 61 * time.Second, true}, {0.9, 61 * time.Second, false}, {0.9, 2 * time.Minute, true}} {
		m := newMarket(wrap.SoldOut(time.Minute), func() float64 { return c.chance })
		m.err = full("")
		_, _ = m.asks(t, request("1"))
		m.clk.pass(c.pass)
		if asked, _ := m.asks(t, request("2")); asked != c.asked {
			t.Errorf("with chance %v, after %v: asked %v, want %v", c.chance, c.pass, asked, c.asked)
		}
	}
}

func TestOfferingsOff(t *testing.T) {
	t.Parallel()
	m := newMarket(-1, never)
	m.err = full("")
	for range 2 {
		if asked, _ := m.asks(t, request("1")); !asked {
			t.Error("not asked, although nothing is to be remembered")
		}
	}
}

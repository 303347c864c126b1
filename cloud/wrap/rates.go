package wrap

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// ParseRates returns the rates of each driver that texts state, each as
// <provider>.<operation>=<calls per second>[:<calls at once>], e.g. aws.create=10:50.
// Operations are create, get, delete, list, capacity, tags and members (of load balancers).
// Without calls at once these are as many as fit into a second, at least one.
func ParseRates(texts []string) (map[string]cloud.Rates, error) {
	all := map[string]cloud.Rates{}
	for _, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		provider, operation, _ := strings.Cut(key, ".")
		provider = strings.ToLower(provider)
		rates := all[provider]
		field := fieldOf(&rates, operation)
		if provider == "" || field == nil {
			return nil, fmt.Errorf("%q does not begin with <provider>.create, .get, .delete, .list, .capacity, .tags or "+
				".members", text)
		}
		rate, err := parseRate(value)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		*field = rate
		all[provider] = rates
	}
	return all, nil
}

// fieldOf returns the place of an operation, nil if there is no such operation.
func fieldOf(r *cloud.Rates, operation string) *cloud.Rate {
	switch operation {
	case "create":
		return &r.Create
	case "get":
		return &r.Get
	case "delete":
		return &r.Delete
	case "list":
		return &r.List
	case "capacity":
		return &r.Capacity
	case "tags":
		return &r.Tags
	case "members":
		return &r.Members
	}
	return nil
}

func parseRate(text string) (cloud.Rate, error) {
	perSecond, burst, hasBurst := strings.Cut(text, ":")
	r := cloud.Rate{}
	var err error
	r.PerSecond, err = strconv.ParseFloat(perSecond, 64)
	if err != nil || r.PerSecond <= 0 || math.IsInf(r.PerSecond, 0) || math.IsNaN(r.PerSecond) {
		return r, fmt.Errorf("calls per second are %q and have to be a positive number", perSecond)
	}
	r.Burst = max(int(math.Min(r.PerSecond, math.MaxInt32)), 1)
	if !hasBurst {
		return r, nil
	}
	if r.Burst, err = strconv.Atoi(burst); err != nil || r.Burst < 1 {
		return r, fmt.Errorf("calls at once are %q and have to be a positive whole number", burst)
	}
	return r, nil
}

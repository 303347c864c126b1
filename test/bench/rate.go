package main

import (
	"context"
	"fmt"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// rateFlag is the manager's flag for what -create-rate states; empty without it.
func (b *bench) rateFlag() string {
	if b.createRate == "" {
		return ""
	}
	return sim.ProviderName + ".create=" + b.createRate
}

// limit makes the cloud refuse creations beyond -create-rate.
func (b *bench) limit(ctx context.Context) error {
	rates, err := wrap.ParseRates([]string{b.rateFlag()})
	if err != nil {
		return err
	}
	b.allowed = rates[sim.ProviderName].Create
	accounts := sim.DefaultSettings().Accounts
	for i := range accounts {
		accounts[i].Rates = map[string]sim.Rate{
			sim.OpCreateVM: {PerSecond: b.allowed.PerSecond, Burst: b.allowed.Burst},
		}
	}
	if err := b.Cloud.Change(ctx, map[string]any{"accounts": accounts}); err != nil {
		return fmt.Errorf("limit creations: %w", err)
	}
	return nil
}

// rateUsed is the share of what the cloud allows that the creation of n machines
// used; their boot time does not count. 0 without a limit.
func rateUsed(allowed cloud.Rate, n int, seconds float64, boot time.Duration) float64 {
	if allowed.PerSecond == 0 {
		return 0
	}
	least := float64(n-allowed.Burst) / allowed.PerSecond
	return least / (seconds - boot.Seconds())
}

package main

import (
	"context"
	"fmt"
	"time"
)

// action does something and reports whether there was something to do it to.
type action func(context.Context) (bool, error)

// kind is an action with how often it is drawn, and whether it needs the API
// server.
type kind struct {
	weight int
	needs  bool
	do     action
}

// kinds are all that can happen.
func (c *chaos) kinds() []kind {
	return []kind{
		{8, false, c.killManager},
		{5, false, c.freezeManager},
		{3, false, c.loseAPIServer(true)},
		{3, false, c.loseAPIServer(false)},
		{10, false, c.failCalls},
		{2, false, c.slowCloud},
		{2, false, c.fullCloud},
		{3, false, c.loseVM("terminate")},
		{2, false, c.loseVM("reclaim")},
		{2, false, c.loseVM("stop")},
		{2, false, c.loseVM("fail")},
		{3, false, c.sicken},
		{1, false, c.stray},
		{7, true, c.roll},
		{9, true, c.scale},
		{3, true, c.pause},
		{4, true, c.deleteMachine},
	}
}

// storm injects one fault after the other until the time is over.
func (c *chaos) storm(ctx context.Context) error {
	kinds := c.kinds()
	c.planRestores()
	end := time.Now().Add(time.Duration(c.options.minutes * float64(time.Minute)))
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	next := time.Now()
	for time.Now().Before(end) {
		if err := c.step(ctx); err != nil {
			return err
		}
		if time.Now().After(next) {
			if err := c.draw(ctx, kinds); err != nil {
				return err
			}
			next = time.Now().Add(c.between(500*time.Millisecond, 6*time.Second))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// step does what is due.
func (c *chaos) step(ctx context.Context) error {
	if err := c.perform(ctx, false); err != nil {
		return err
	}
	return c.tend()
}

// draw draws actions until one has something to do.
func (c *chaos) draw(ctx context.Context, kinds []kind) error {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for range 20 {
		n := c.random.IntN(total)
		for _, k := range kinds {
			if n -= k.weight; n >= 0 {
				continue
			}
			if k.needs && c.apiDown {
				break
			}
			if done, err := k.do(ctx); done || err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// calm ends all faults: what was to be done later is done now.
func (c *chaos) calm(ctx context.Context) error {
	if err := c.perform(ctx, true); err != nil {
		return err
	}
	if err := c.Cloud.ClearFaults(ctx); err != nil {
		return fmt.Errorf("clear the cloud's faults: %w", err)
	}
	return c.tend()
}

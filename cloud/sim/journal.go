package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// line is one fact that a Cloud has to remember.
type line struct {
	Settings *Settings `json:"settings,omitempty"`
	Resource *Resource `json:"resource,omitempty"`

	// What the API does not show of Resource.
	Token     string `json:"token,omitempty"`
	TokenHash string `json:"tokenHash,omitempty"`
	UserData  []byte `json:"userData,omitempty"`

	// What has been given out.
	Seed uint64            `json:"seed,omitempty"`
	IPs  map[string]uint32 `json:"ips,omitempty"`
}

// record writes r down.
func (c *Cloud) record(r *Resource) {
	if c.onRecord == nil {
		return
	}
	l := line{Resource: r, Token: r.token, TokenHash: r.tokenHash, UserData: r.userData, Seed: c.seed}
	if r.NIC != nil {
		l.IPs = map[string]uint32{r.NIC.Network: c.ips[r.NIC.Network]}
	}
	c.write(l)
}

func (c *Cloud) recordSettings() {
	if c.onRecord != nil {
		c.write(line{Settings: &c.settings, Seed: c.seed})
	}
}

func (c *Cloud) write(l line) {
	text, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("a line of plain values does not marshal: %v", err))
	}
	c.onRecord(append(text, '\n'))
}

// Replay makes an empty Cloud what the one was whose lines these are. A last
// line that was cut off by a crash is left out. Calls, consoles and faults are
// not remembered.
func (c *Cloud) Replay(lines io.Reader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := bufio.NewReader(lines)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read line %d: %w", n, err)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("read line %d: %w", n, err)
		}
		c.replay(l)
	}
	c.reindex()
	return nil
}

func (c *Cloud) replay(l line) {
	c.seed = l.Seed
	if l.Settings != nil {
		c.settings = *l.Settings
	}
	for network, used := range l.IPs {
		c.ips[network] = max(c.ips[network], used)
	}
	r := l.Resource
	if r == nil {
		return
	}
	r.token, r.tokenHash, r.userData = l.Token, l.TokenHash, l.UserData
	if known := c.all[r.ID]; known != nil {
		*known = *r
		return
	}
	c.all[r.ID] = r
	c.ledger = append(c.ledger, r)
	c.seq = max(c.seq, r.Seq)
}

// reindex enters what was replayed everywhere that it is looked up.
func (c *Cloud) reindex() {
	known := c.ledger
	c.ledger = nil
	for _, r := range sortedBySeq(known) {
		c.index(r)
		if !r.Gone.IsZero() {
			c.going.push(r)
		}
	}
	told, shown := c.onRecord, c.onChange
	c.onRecord, c.onChange = nil, nil // nothing of this is new
	c.sweep(c.clock.Now())
	c.onRecord, c.onChange = told, shown
}

// Lines returns the lines from which Replay makes this Cloud again, as few as
// there can be.
func (c *Cloud) Lines() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []byte
	told := c.onRecord
	c.onRecord = func(text []byte) { out = append(out, text...) }
	c.recordSettings()
	for _, r := range c.ledger {
		c.record(r)
	}
	c.onRecord = told
	return out
}

package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// EvidenceKey is the entry of a pool's Secret that has the failures.
	EvidenceKey = "failures.json"
	// Kept is how many failures a pool's Secret has at most.
	Kept = 3

	longestPool = 200 // bytes of a pool's name that are part of the Secret's
	hashBytes   = 5
)

// Failure is a machine that did not join, with the end of its console.
type Failure struct {
	Machine    string `json:"machine"` // name of the Machine, or of the MCMMachine
	OwnerID    string `json:"ownerID"`
	ProviderID string `json:"providerID"`
	Class      string `json:"class,omitempty"` // name of the MachineClass
	// Read is when the console was read.
	Read time.Time `json:"read"`
	// Cause was found before anything was redacted; empty is Unknown.
	Cause Cause `json:"cause,omitempty"`
	Times int   `json:"times,omitempty"` // how many lines show it
	// Line is the last one that shows the cause, redacted.
	Line string `json:"line,omitempty"`
	// Text is the end of the console, redacted; lines end in \n.
	Text string `json:"text"`
}

// Verdict is what the console says, redacted.
func (f Failure) Verdict() Verdict {
	v := Classify(f.Text)
	v.Cause, v.Line, v.Times = f.Cause, f.Line, f.Times
	v.Summary, v.Remedy = Describe(f.Cause)
	return v
}

// Describe returns a cause in a few words, and what a person can do about it. A cause that is
// not known here is described as Unknown is.
func Describe(c Cause) (summary, remedy string) {
	for i := range rows {
		if rows[i].cause == c && c != Unknown {
			return rows[i].summary, rows[i].remedy
		}
	}
	return "unknown", "read the end of the console; nothing on it is known to keep a node from joining"
}

// Add returns all with f as the first, without what is kept of the same machine, and without the
// oldest beyond Kept. all is not changed.
func Add(all []Failure, f Failure) []Failure {
	others := slices.DeleteFunc(slices.Clone(all), func(o Failure) bool { return o.OwnerID == f.OwnerID })
	added := append([]Failure{f}, others...)
	return added[:min(len(added), Kept)]
}

// Find returns what is kept of a machine.
func Find(all []Failure, ownerID string) (Failure, bool) {
	at := slices.IndexFunc(all, func(f Failure) bool { return f.OwnerID == ownerID })
	if at < 0 || ownerID == "" {
		return Failure{}, false
	}
	return all[at], true
}

// Format returns failures as EvidenceKey holds them.
func Format(all []Failure) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // a console has many < and >, and would grow sixfold
	if err := encoder.Encode(all); err != nil {
		return nil, fmt.Errorf("encode failures: %w", err)
	}
	return out.Bytes(), nil
}

// Parse reads what Format wrote, the newest first. Nothing is no failures.
func Parse(data []byte) ([]Failure, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var all []Failure
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("decode failures: %w", err)
	}
	return all, nil
}

// SecretName is the name of the Secret of a pool, in the pool's namespace. Pools of one name and
// of different kinds have different ones.
func SecretName(group, kind, name string) string {
	sum := sha256.Sum256([]byte(group + "/" + kind + "/" + name))
	return name[:min(len(name), longestPool)] + "-console-" + hex.EncodeToString(sum[:hashBytes])
}

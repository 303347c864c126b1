package ec2test

import (
	"encoding/base64"
	"encoding/xml"
	"strings"
	"time"
)

// consoleMax is how much of a console EC2 keeps.
const consoleMax = 64 << 10

// printed is what a guest has written at one time.
type printed struct {
	at   time.Time
	text string
}

// Print lets the guest of an instance write to its console, and returns all that it has written.
func (c *Cloud) Print(id, text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.all[id]
	if r == nil {
		return ""
	}
	r.console = append(r.console, printed{c.now(), text})
	return r.written(c.now())
}

// written is the console as it was at a time.
func (r *Resource) written(at time.Time) string {
	var b strings.Builder
	for _, p := range r.console {
		if !p.at.After(at) {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// getConsole answers with the last 64 KiB, in base64. The latest output is to be had of instances on
// Nitro only. Without that, EC2 answers with what it has posted once after the launch, and with
// nothing until then.
func (c *Cloud) getConsole(f params) (any, error) {
	r := c.all[f.Get("InstanceId")]
	if r == nil || r.Kind != KindInstance {
		return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", f.Get("InstanceId"))
	}
	now, text := c.now(), ""
	posted := r.Made.Add(c.settings.ConsolePost)
	switch {
	case f.Get("Latest") != "true":
		if !now.Before(posted) {
			text = r.written(posted)
		}
	case c.settings.Types[r.Type].Xen:
		return nil, fail("UnsupportedOperation", "This instance type does not support retrieving the latest console logs")
	default:
		text = r.written(now)
	}
	text = text[max(len(text)-consoleMax, 0):]
	answer := struct {
		XMLName  xml.Name
		Instance string `xml:"instanceId"`
		Output   string `xml:"output,omitempty"`
		Time     string `xml:"timestamp"`
	}{Instance: r.ID, Output: base64.StdEncoding.EncodeToString([]byte(text)), Time: stamp(posted)}
	answer.XMLName.Local = "GetConsoleOutputResponse"
	return answer, nil
}

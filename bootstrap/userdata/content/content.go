// Package content is what boot data brings onto a machine, before it has a format.
package content

import (
	"strings"
	"unicode/utf8"
)

// Plan is everything that a machine gets.
type Plan struct {
	Comments []string // lines for people who read the output
	Hostname string   // empty: what the cloud calls the machine
	Files    []File
	Units    []Unit
	SSHKeys  []string
	NTP      []string // servers that the format configures; none: Files have them, or the image
	APTProxy *APTProxy
	Start    string // the unit that does the rest
}

// Files that a format writes where it has no key for what is in them.
const (
	GeneratorPath = "/etc/mcm/generator"
	HostnamePath  = "/etc/hostname"
	NTPPath       = "/etc/systemd/timesyncd.conf.d/90-mcm.conf"
)

// unitFolder has the units that are not of the image.
const unitFolder = "/etc/systemd/system/"

// File is one file of the machine.
type File struct {
	Path    string
	Content []byte
	Mode    int
	Append  bool // for files of the image; only cloud-config has this
}

// Unit is one unit of systemd.
type Unit struct {
	Name    string
	Content string // empty: the one of the image
	DropIns []File // their Path is a name
	Enable  bool
	Mask    bool
}

// APTProxy is that of the packages of Debian and Ubuntu.
type APTProxy struct{ HTTP, HTTPS string }

// UnitFiles are the files of all units.
func (p *Plan) UnitFiles() []File {
	var list []File
	for i := range p.Units {
		list = append(list, p.Units[i].Files()...)
	}
	return list
}

// Files are the unit's own file, unless it is the image's, and its drop-ins.
func (u *Unit) Files() []File {
	var list []File
	if u.Content != "" {
		list = append(list, File{Path: unitFolder + u.Name, Content: []byte(u.Content), Mode: 0o644})
	}
	for _, dropIn := range u.DropIns {
		dropIn.Path = unitFolder + u.Name + ".d/" + dropIn.Path
		list = append(list, dropIn)
	}
	return list
}

// IsText reports whether a format can hold data as plain text, where the manager finds placeholders.
func IsText(data []byte) bool {
	isControl := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' } // YAML would have to escape it
	return utf8.Valid(data) && !strings.ContainsFunc(string(data), isControl)
}

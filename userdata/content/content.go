// Package content is what boot data brings onto a machine, before it has a format.
package content

// Plan is everything that a machine gets.
type Plan struct {
	Comments []string // lines for people who read the output
	Hostname string   // empty: what the cloud calls the machine
	Files    []File
	Units    []Unit
	SSHKeys  []string
	NTP      []string
	Packages []string // in order
	APTProxy *APTProxy
	Start    string // the unit that does the rest
}

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

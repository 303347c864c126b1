package userdata

import (
	"net/url"
	"slices"
	"strings"
)

// hidden stands where a secret was.
const hidden = "HIDDEN"

// Masked returns a copy without its secrets: passwords of registries and proxies, files and commands
// that are marked as secret, and whatever has a private key. The placeholders are no secrets.
func (m *MachineUserData) Masked() *MachineUserData {
	masked := *m
	masked.masked = true
	s := &masked.Spec
	s.ContainerRuntime.Credentials = slices.Clone(s.ContainerRuntime.Credentials)
	for i := range s.ContainerRuntime.Credentials {
		s.ContainerRuntime.Credentials[i].Password = hidden
	}
	if s.Proxy != nil {
		proxy := *s.Proxy
		proxy.HTTP, proxy.HTTPS = withoutPassword(proxy.HTTP), withoutPassword(proxy.HTTPS)
		s.Proxy = &proxy
	}
	s.Files = slices.Clone(s.Files)
	for i := range s.Files {
		content, err := s.Files[i].content()
		if s.Files[i].Secret || err != nil || hasKey(string(content)) {
			s.Files[i].Content, s.Files[i].Encoding = hidden+"\n", ""
		}
	}
	s.Commands = slices.Clone(s.Commands)
	for i := range s.Commands {
		if s.Commands[i].Secret || hasKey(s.Commands[i].Script) {
			s.Commands[i].Script = ": " + hidden + "\n"
		}
	}
	s.maskUnits()
	return &masked
}

// maskUnits hides units with a private key; they are readable by all users of a machine, and no
// place for other secrets.
func (s *Spec) maskUnits() {
	s.Units = slices.Clone(s.Units)
	for i := range s.Units {
		if hasKey(s.Units[i].Content) {
			s.Units[i].Content = "# " + hidden + "\n"
		}
		s.Units[i].DropIns = slices.Clone(s.Units[i].DropIns)
		for j := range s.Units[i].DropIns {
			if hasKey(s.Units[i].DropIns[j].Content) {
				s.Units[i].DropIns[j].Content = "# " + hidden + "\n"
			}
		}
	}
}

func hasKey(text string) bool { return strings.Contains(text, privateKeyEnd) }

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	u.User = url.UserPassword(u.User.Username(), hidden)
	return u.String()
}

package openstack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

func me() string {
	u, err := user.Current()
	if err != nil {
		return "root"
	}
	return u.Username
}

// startDB starts MariaDB on a socket in the rig's folder. It loses the last
// writes when the machine dies, as its folder is of no use then.
func (s settings) startDB(ctx context.Context) (*process.Process, error) {
	return process.StartReady(ctx, process.Command{
		Name: "mariadb", Program: mariadbd, Log: s.log("mariadb"), Args: []string{
			"--no-defaults", "--user=" + me(), "--datadir=" + s.data(), "--socket=" + s.socket(),
			"--pid-file=" + filepath.Join(s.Dir, "mariadb.pid"), "--skip-networking", "--skip-log-bin",
			"--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-flush-method=O_DIRECT_NO_FSYNC",
			"--sync-frm=0", "--innodb-log-file-size=16M", "--innodb-buffer-pool-size=128M", "--performance-schema=OFF",
			"--max-connections=400", "--skip-name-resolve",
		},
	}, func(ctx context.Context) error {
		_, err := s.sql(ctx, "SELECT 1")
		return err
	})
}

// sqlClient is the command line of MariaDB's client.
func (s settings) sqlClient() []string {
	return []string{
		"mariadb", "--no-defaults", "--protocol=socket", "--socket=" + s.socket(), "-uroot", "--batch",
		"--skip-column-names", "--raw", "--unbuffered",
	}
}

// sql runs statements and returns their rows, fields separated by tabs.
func (s settings) sql(ctx context.Context, statements string) (string, error) {
	command := s.sqlClient()
	return run(ctx, statements, command[0], command[1:]...)
}

// database is a connection that stays. Its zero value connects when it is used.
type database struct {
	mu     sync.Mutex
	in     io.WriteCloser
	out    *bufio.Scanner
	failed *strings.Builder
	cmd    *exec.Cmd
	number int
}

// query runs statements and returns their rows, fields separated by tabs.
func (d *database) query(s settings, statements string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.connect(s); err != nil {
		return nil, err
	}
	d.number++
	end := fmt.Sprintf("end of query %d", d.number)
	if _, err := fmt.Fprintf(d.in, "%s;\nSELECT '%s';\n", strings.TrimRight(statements, "; \n"), end); err != nil {
		return nil, d.broken(err)
	}
	var rows []string
	for d.out.Scan() {
		if d.out.Text() == end {
			return rows, nil
		}
		rows = append(rows, d.out.Text())
	}
	return nil, d.broken(d.out.Err())
}

// broken makes the next query reconnect. What the client has said of the
// trouble is whole only when it has ended.
func (d *database) broken(err error) error {
	_ = d.in.Close() // it is broken already
	_ = d.cmd.Wait()
	d.in = nil
	return fmt.Errorf("query the database: %w", errors.Join(err, errors.New(d.failed.String())))
}

func (d *database) connect(s settings) error {
	if d.in != nil {
		return nil
	}
	const longest = 1 << 20
	command := s.sqlClient()
	cmd := exec.Command(command[0], command[1:]...)
	d.failed = &strings.Builder{}
	cmd.Stderr = d.failed
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// It ends with its input, which ends with this process. Wait would close
	// its output while it is read.
	d.in, d.out, d.cmd = in, bufio.NewScanner(out), cmd
	d.out.Buffer(nil, longest)
	return nil
}

// close ends the connection.
func (d *database) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.in != nil {
		_ = d.in.Close() // nothing is lost
		_ = d.cmd.Wait()
		d.in = nil
	}
}

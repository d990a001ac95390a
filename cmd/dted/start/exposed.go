package start

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dtegate/cmd/dted/config"
)

// Exposed names the secrets that other accounts of this machine may read or write, each by its setting and with what ends it, in
// the order of the sample. They end no start: who could read has read, and a store that does not sell mends nothing. dted warns of
// each at every start, and doctor fails. sound is how many are as they should be; a file that is not there is neither.
func Exposed(c *config.Config) (faults []error, sound int) {
	secrets := [][2]string{{"tokens", c.Tokens}, {"box_key", c.BoxKey}, {"api.key", c.API.Key}, {"ops.key", c.Ops.Key},
		{"ops.admin_token_file", c.Ops.AdminTokenFile}, {"authority.password_file", c.Authority.PasswordFile}, {"key.file", c.Key.File},
		{"key.passphrase_file", c.Key.PassphraseFile}}
	if c.Mail != nil {
		secrets = append(secrets, [2]string{"mail.password_file", c.Mail.PasswordFile})
	}
	if c.Archive != nil {
		secrets = append(secrets, [2]string{"archive.secret_file", c.Archive.SecretFile})
	}
	if c.Webhook != nil {
		secrets = append(secrets, [2]string{"webhook.secret_file", c.Webhook.SecretFile})
	}
	if f := c.Fleet; f != nil {
		secrets = append(secrets, [2]string{"fleet.key", f.Key})
		if f.Store != c.Archive {
			secrets = append(secrets, [2]string{"fleet.store.secret_file", f.Store.SecretFile})
		}
	}
	for _, s := range secrets {
		if s[1] == "" {
			continue
		}
		mode, open, err := reach(s[1])
		switch {
		case err != nil: // who needs the file says so
		case open:
			faults = append(faults, fmt.Errorf("%s: others may read or alter %s (mode %04o): chmod 600 %s, and replace the secret if others use this machine", s[0], s[1], mode, s[1]))
		default:
			sound++
		}
	}
	return faults, sound
}

// reach tells whether accounts besides the owner's reach a file, and the file's mode. A folder that only its owner and group may
// enter keeps what is in it, whatever the file's own mode: systemd's credentials and /etc/dted are such folders.
func reach(path string) (mode fs.FileMode, open bool, err error) {
	file, err := os.Stat(path)
	if err != nil {
		return 0, false, err
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return 0, false, err
	}
	mode = file.Mode().Perm()
	return mode, mode&0o077 != 0 && folder.Mode().Perm()&0o001 != 0, nil
}

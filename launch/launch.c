/* Prepares a process of harness/supervise/programs.py and becomes its program:
 *
 *   launch PARENT UID GID FOREIGN PRIORITY ENVIRONMENT REPORT PYTHON REMAINING WORD...
 *
 * Python starts this program with vfork(2). To prepare a process in Python takes a fork, which
 * copies the page tables of the harness: ten times the processor time of a start.
 *
 * PARENT: process that the program dies with. UID, GID: whose rights it has (-1: ours).
 * FOREIGN: 1 where nothing of it may outlive it. PRIORITY: its nice value. ENVIRONMENT: descriptor
 * of a file with its variables, each ended by a zero byte; they are no variables of ours, so that
 * none of them changes what runs with our rights. REPORT: descriptor that the number of an error is
 * written to; closed by the program's start. PYTHON, REMAINING: what ends processes that are left.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARENT = 1, UID, GID, FOREIGN, PRIORITY, ENVIRONMENT, REPORT, PYTHON, REMAINING, WORDS };

/* Of a process that could not start; and what a shell adds to the number of a signal. */
enum { FAILED = 127, BY_SIGNAL = 128 };

static int report;

_Noreturn static void fail(int number)
{
	ssize_t written = write(report, &number, sizeof number);
	_exit(written < 0 ? FAILED - 1 : FAILED);
}

static void check(int result)
{
	if (result != 0)
		fail(errno);
}

/* Linux drops the request when the user changes; a parent that is dead sends nothing any more. */
static void die_with(pid_t parent, int number)
{
	check(prctl(PR_SET_PDEATHSIG, number, 0, 0, 0));
	if (getppid() != parent)
		_exit(BY_SIGNAL + number);
}

static char **read_environment(int descriptor)
{
	struct stat status;
	check(fstat(descriptor, &status));
	size_t size = (size_t)status.st_size, count = 0;
	char *text = "";
	if (size > 0) {
		text = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
		if (text == MAP_FAILED)
			fail(errno);
	}
	for (size_t i = 0; i < size; i++)
		count += text[i] == '\0';
	char **variables = calloc(count + 1, sizeof *variables);
	if (variables == NULL)
		fail(ENOMEM);
	for (size_t i = 0; i < count; i++, text += strlen(text) + 1)
		variables[i] = text;
	return variables;
}

/* As execvpe(3), but a file without a format is an error and no script. */
static int execute(char **words, char **variables)
{
	if (strchr(words[0], '/') != NULL) {
		execve(words[0], words, variables);
		return errno;
	}
	const char *folder = NULL;
	for (char **variable = variables; *variable != NULL; variable++)
		if (strncmp(*variable, "PATH=", 5) == 0)
			folder = *variable + 5;
	int result = ENOENT;
	while (folder != NULL) {
		int length = (int)strcspn(folder, ":");
		char path[PATH_MAX];
		if (snprintf(path, sizeof path, "%.*s/%s", length, length ? folder : ".", words[0]) <
		    (int)sizeof path) {
			execve(path, words, variables);
			if (errno != ENOENT && errno != ENOTDIR && result == ENOENT)
				result = errno;
		}
		folder = folder[length] == ':' ? folder + length + 1 : NULL;
	}
	return result;
}

/* As the program ended: its exit status, or the negative number of the signal. */
_Noreturn static void end_as(int code)
{
	if (code < 0) {
		sigset_t none;
		sigemptyset(&none);
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(-code, SIG_DFL);
		sigprocmask(SIG_SETMASK, &none, NULL);
		kill(getpid(), -code);
	}
	_exit(code < 0 ? BY_SIGNAL - code : code);
}

/* The process between the harness and a foreign program, with our rights, so that the program
 * cannot end it: it waits for the program's end, or for SIGTERM, then kills all that is left, and
 * ends as the program did. As a subreaper it is the parent of what the program has left. */
_Noreturn static void be_between(pid_t program, const sigset_t *signals, char **arguments)
{
	if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) != 0)
		for (int i = STDERR_FILENO + 1; i < sysconf(_SC_OPEN_MAX); i++)
			close(i);
	int code = -SIGKILL, ended = 0, number = 0;
	pid_t pid;
	for (;;) {
		int status;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == program) {
				code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
				ended = 1;
			}
		if (ended || number == SIGTERM)
			break;
		sigwait(signals, &number);
	}
	if (pid == 0) {
		char text[16];
		snprintf(text, sizeof text, "%d", code);
		execve(arguments[PYTHON],
		       (char *[]){arguments[PYTHON], "-X", "utf8", "-I", "-S", arguments[REMAINING],
		                  text, NULL},
		       (char *[]){NULL});
		if (!ended)
			kill(program, SIGKILL);
	}
	end_as(code);
}

int main(int count, char **arguments)
{
	if (count <= WORDS)
		return FAILED;
	pid_t parent = atoi(arguments[PARENT]);
	int user = atoi(arguments[UID]), group = atoi(arguments[GID]);
	int foreign = atoi(arguments[FOREIGN]), priority = atoi(arguments[PRIORITY]);
	int environment = atoi(arguments[ENVIRONMENT]);
	report = atoi(arguments[REPORT]);
	check(fcntl(report, F_SETFD, FD_CLOEXEC));
	check(fcntl(environment, F_SETFD, FD_CLOEXEC));
	char **variables = read_environment(environment);
	if (foreign) {
		sigset_t waited, before;
		sigemptyset(&waited);
		sigaddset(&waited, SIGTERM);
		sigaddset(&waited, SIGCHLD);
		check(sigprocmask(SIG_SETMASK, &waited, &before));
		signal(SIGCHLD, SIG_DFL); /* ignored ones would leave no status */
		die_with(parent, SIGTERM);
		check(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
		parent = getpid();
		pid_t program = fork();
		if (program < 0)
			fail(errno);
		if (program > 0)
			be_between(program, &waited, arguments);
		check(sigprocmask(SIG_SETMASK, &before, NULL));
	}
	if (priority != 0 && setpriority(PRIO_PROCESS, 0, priority) != 0 && errno != EACCES &&
	    errno != EPERM)
		fail(errno);
	if (user != -1) {
		check(setgroups(0, NULL));
		check(setresgid((gid_t)group, (gid_t)group, (gid_t)group));
		check(setresuid((uid_t)user, (uid_t)user, (uid_t)user));
	}
	die_with(parent, SIGKILL);
	if (foreign)
		check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	fail(execute(arguments + WORDS, variables));
}

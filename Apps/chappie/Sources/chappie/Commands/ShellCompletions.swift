import ArgumentParser

/// The parser's completions, extended by what it does not know: a question without `ask`, and the commands after
/// `help`.
enum ShellCompletions {
    static func script(for shell: CompletionShell) -> String {
        let script = ChappieCommand.completionScript(for: shell)
        let names = ChappieCommand.names.joined(separator: " ")
        return switch shell {
        case .bash: bash(script, names)
        case .zsh: zsh(script, names)
        default: fish(script, names)
        }
    }

    /// The options of every command that take no value, and those that take one.
    private static let flags = "--json|--verbose|-v|--simulate"
    private static let options = "--account|--route|--timeout"

    private static func bash(_ script: String, _ names: String) -> String {
        let start = "_chappie() {\n"
        return script.replacing(
            "\n" + start,
            with: "\n" + start + """
                    local -i index=1
                    while ((index < COMP_CWORD)); do
                        case "${COMP_WORDS[index]}" in
                        \(flags)) index+=1 ;;
                        \(options)) index+=2 ;;
                        *) break ;;
                        esac
                    done
                    local -r first="${COMP_WORDS[index]-}"
                    if [[ "${first}" == help ]] && ((index < COMP_CWORD)); then
                        COMPREPLY=($(compgen -W '\(names)' -- "${2}"))
                        return
                    fi
                    if [[ ("${first}" == -* || index -lt COMP_CWORD) && " \(names) " != *" ${first} "* ]]; then
                        local -a given=("${COMP_WORDS[@]}")
                        local -a COMP_WORDS=("${given[0]}" ask "${given[@]:1}")
                        local -i COMP_CWORD=$((COMP_CWORD + 1))
                    fi

                """)
    }

    private static func zsh(_ script: String, _ names: String) -> String {
        let anchor = "    local -r command_name=\"${words[1]}\"\n"
        return script.replacing(
            anchor,
            with: """
                    local -i index=2
                    while ((index < CURRENT)); do
                        case "${words[index]}" in
                        \(flags)) ((index += 1)) ;;
                        \(options)) ((index += 2)) ;;
                        *) break ;;
                        esac
                    done
                    local -r first="${words[index]-}"
                    if [[ "${first}" == help ]] && ((index < CURRENT)); then
                        compadd -- \(names)
                        return
                    fi
                    if [[ ("${first}" == -* || index -lt CURRENT) && " \(names) " != *" ${first} "* ]]; then
                        words=("${words[1]}" ask "${(@)words[2,-1]}")
                        ((CURRENT += 1))
                    fi


                """ + anchor)
    }

    private static func fish(_ script: String, _ names: String) -> String {
        let anchor = "    set -l unparsed_tokens (__chappie_tokens -pc)\n"
        return script.replacing(
            anchor,
            with: anchor + """
                    set -l index 2
                    while set -q unparsed_tokens[$index]
                        switch $unparsed_tokens[$index]
                        case \(flags.replacing("|", with: " "))
                            set index (math $index + 1)
                        case \(options.replacing("|", with: " "))
                            set index (math $index + 2)
                        case '*'
                            break
                        end
                    end
                    set -l first $unparsed_tokens[$index] (commandline -ct)
                    if begin; set -q unparsed_tokens[$index]; or string match -q -- '-*' $first[1]; end
                        and not contains -- $first[1] \(names)
                        set unparsed_tokens $unparsed_tokens[1] ask $unparsed_tokens[2..]
                    end

                """) + "complete -c chappie -n '__fish_seen_subcommand_from help' -f -a '\(names)'\n"
    }
}

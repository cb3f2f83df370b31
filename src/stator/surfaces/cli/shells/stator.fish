# Completion of stator for fish. The program itself says what fits: commands, options, sessions.
function __stator_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    for line in (stator --complete $typed[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c stator -f -a '(__stator_complete)'
